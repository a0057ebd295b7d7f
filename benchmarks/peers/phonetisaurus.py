"""Joint n-gram models of Phonetisaurus and of Seqloom, side by side on the pronunciations of CMUdict.

``PEERS`` is the environment of ``scripts/peers``, which has Phonetisaurus, and ``SEQLOOM_DATA`` the folder of the data
sets. Run it with ``python -m benchmarks.peers.phonetisaurus``: it prints the error rates of the dev words that are not
in the training data, and the seconds of the commands that train a model and that load it and predict these words.
"""

import gzip
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from seqloom.metrics.text import edit_errors

NAME, ORDER = "cmudict_g2p/cmudict-0.7b.train-dev-{}-21.gz", 8


def read(part: int) -> list[tuple[str, list[str]]]:
    """Words with their phones."""
    text = gzip.decompress(Path(os.environ["SEQLOOM_DATA"], NAME.format(part)).read_bytes()).decode()
    return [(word, phones) for word, *phones in map(str.split, text.splitlines())]


def timed(*command: str | Path, cwd: Path, text: str = "") -> tuple[str, float]:
    """The output of a command, and its seconds."""
    started = time.monotonic()
    result = subprocess.run(list(map(str, command)), input=text, check=True, capture_output=True, text=True, cwd=cwd)  # noqa: S603  ours
    return result.stdout, time.monotonic() - started


def main() -> None:
    train, dev = read(20), read(1)
    known = {word for word, _ in train}
    new = [(word, phones) for word, phones in dev if word not in known]
    words = "".join(f"{word}\n" for word, _ in new)
    python = Path(os.environ["PEERS"], "bin/python")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, separator in (("train.txt", " "), ("train.tsv", "\t")):
            (folder / file).write_text("".join(f"{word}{separator}{' '.join(phones)}\n" for word, phones in train))
        seqloom = [sys.executable, "-m", "seqloom"]
        ours = ["train", "--task", "translate", "--data", "train.tsv", "task.model=joint_ngram"]
        ours += [f"task.joint_ngram.order={ORDER}", "task.dev_fraction=0", "--output", "run"]
        peer = [str(python), "-m", "phonetisaurus"]
        commands: dict[str, tuple[list[str], list[str]]] = {
            "Phonetisaurus": (
                [*peer, "train", "--model", "model.fst", "--casing", "ignore", "train.txt"],
                [*peer, "predict", "--model", "model.fst", "--casing", "ignore", *words.split()],
            ),
            "Seqloom": ([*seqloom, *ours], [*seqloom, "predict", "run", "-", "--search", "beam size=5"]),
        }
        for library, (training, prediction) in commands.items():
            _, train_seconds = timed(*training, cwd=folder)
            output, seconds = timed(*prediction, cwd=folder, text=words)
            answers = [line.split() for line in output.splitlines()]
            if library == "Phonetisaurus":  # prints each word with its phones, unless it has none
                phones_of = {word: phones for word, *phones in answers}
                answers = [phones_of.get(word, []) for word, _ in new]
            errors = edit_errors([word for word, _ in new], answers, [phones for _, phones in new])
            print(
                f"{library:14} PER {errors.token_error_rate:.2%}  WER {errors.sequence_error_rate:.2%}  "
                f"training {train_seconds:.1f} s  prediction {seconds:.1f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
