"""Word vectors beside gensim on one text: words in a second, what the vectors know, and the memory of a million words.

``SEQLOOM_DATA`` names the folder of the data sets: the text is that of wikitext2, Brown and PTB in small letters, its
lines shuffled, since gensim lets its rate fall by lines and ours falls by words.
"""

import os
import random
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import nn

from seqloom.bench.measure import Result, geometric_mean, take_turns
from seqloom.bench.prepare import running_text, shared
from seqloom.bench.process import child
from seqloom.bench.show import show
from seqloom.data.text.passages import passages
from seqloom.data.text.word_counts import WordIndex
from seqloom.evaluation import evaluate
from seqloom.models.word2vec import Word2Vec
from seqloom.run_config import Config
from seqloom.tasks.embed import Embed, Learned
from seqloom.training.config import TrainConfig
from seqloom.training.engine import train
from seqloom.training.self_trained import SelfTrainedUpdate

SIZE, WINDOW, NEGATIVE, MINIMUM, SAMPLE, EPOCHS = 100, 5, 5, 5, 1e-3, 5
RATE, LAST = 0.025, 0.0001
SEEDS = (1, 2, 3)
GOAL = 1.5
LIMIT = (
    1.8e6  # words in a second of one thread, skip-gram: an estimate by the matrix products, each negative drawn once
)
TESTS = {
    "analogies": "word_analogy/questions-words.txt.gz",
    "WordSim": "word_similarity/wordsim353.tsv",
    "SimLex": "word_similarity/simlex999.txt",
}

MEMORY = """
import sys
from pathlib import Path
import torch
from seqloom.bench.embed import fitted, learn
from seqloom.compare.trial import peak

torch.set_num_threads(1)
small, large = map(Path, sys.argv[1:])
learn(fitted(small, "skipgram", minimum=1), small, epochs=1, seed=1)
before = peak()
learn(fitted(large, "skipgram", minimum=1), large, epochs=1, seed=1)
print(peak() - before)
"""


def main(*, quick: bool, as_json: bool) -> None:
    """Measure, and print a table or JSON."""
    show(measure(quick=quick), as_json=as_json)


def measure(*, quick: bool) -> Iterator[Result]:
    """Speed with one thread and with two, quality with one, then memory."""
    if find_spec("gensim") is None:
        raise SystemExit("gensim is not installed here: scripts/peers makes an environment that has it")
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder, "text.txt")
        lines = [line.lower() for line in running_text()]
        random.Random(1).shuffle(lines)  # noqa: S311
        text.write_text("".join(f"{line}\n" for line in lines[: len(lines) // (8 if quick else 4)]))
        for kind in ("skipgram", "cbow"):
            for threads in sorted({1, min(2, os.cpu_count() or 1)}):
                yield speed(text, kind, threads, repetitions=3 if quick else 7)
        text.write_text("".join(f"{line}\n" for line in lines))
        for kind in ("skipgram", "cbow"):
            yield from quality(text, kind, seeds=SEEDS[: 1 if quick else None])
        yield memory(Path(folder))


def fitted(text: Path, kind: str, *, minimum: int = MINIMUM) -> Embed:
    values: dict[str, Any] = {"train": str(text), "kind": kind, "minimum": minimum, "size": SIZE, "window": WINDOW}
    task = Embed(**values, negative=NEGATIVE, subsample=SAMPLE)
    return task.fit(task.read(text))


def learn(task: Embed, text: Path, *, epochs: int, seed: int) -> Word2Vec:
    """A model trained on the text by the same engine as in any run."""
    torch.manual_seed(seed)
    model = task.build_model()
    _train(model, text, epochs=epochs, seed=seed)
    return cast(Word2Vec, model)


def _train(model: nn.Module, text: Path, *, epochs: int = 1, seed: int = 1) -> None:
    settings = TrainConfig(epochs=epochs, learning_rate=RATE, schedule="linear", decay=LAST / RATE, seed=seed)
    for _ in train(SelfTrainedUpdate(cast(Word2Vec, model), lambda: passages(text), settings)):
        pass


def _theirs(text: Path, kind: str, threads: int, *, seed: int = 1) -> Any:
    """A model of gensim that knows its words."""
    from gensim.models import Word2Vec as Peer

    settings = {"vector_size": SIZE, "window": WINDOW, "negative": NEGATIVE, "min_count": MINIMUM, "sample": SAMPLE}
    model = Peer(**settings, sg=int(kind == "skipgram"), workers=threads, alpha=RATE, min_alpha=LAST, seed=seed)
    model.build_vocab(corpus_file=str(text))
    return model


def _go_over(model: Any, epochs: int, **given: Any) -> None:
    model.train(total_words=model.corpus_total_words, total_examples=model.corpus_count, epochs=epochs, **given)


def speed(text: Path, kind: str, threads: int, *, repetitions: int) -> Result:
    """Words in a second, once over the text; gensim in the better one of its two ways to read."""
    torch.set_num_threads(threads)
    model, peer = fitted(text, kind).build_model(), _theirs(text, kind, threads)
    words = int(peer.corpus_total_words)
    sentences = [line.split() for line in text.read_text().splitlines()]
    contestants: dict[str, Callable[[], object]] = {
        "ours": lambda: _train(model, text),
        "a file": lambda: _go_over(peer, 1, corpus_file=str(text)),
        "lists": lambda: _go_over(peer, 1, corpus_iterable=sentences),
    }
    times = take_turns(contestants, repetitions=repetitions, warm_up=1)
    ours = times.pop("ours")
    best = min(times.values(), key=lambda each: each.median)
    return Result(
        case=f"{kind}, {SIZE} numbers, window {WINDOW}, {NEGATIVE} negatives",
        unit="words/s",
        threads=threads,
        ours=words / ours.median,
        peer=words / best.median,
        peer_name="gensim",
        ratio=best.median / ours.median,
        goal=GOAL,
        limit=LIMIT * threads if kind == "skipgram" else None,
        ours_best=words / ours.minimum,
        peer_best=words / best.minimum,
    )


def judge(task: Embed, model: Word2Vec) -> dict[str, float]:
    """What vectors know, from 0 to 1."""
    config = Config(task, TrainConfig(batch_size=256))
    return {
        name: float(evaluate(config, model, list(task.read(shared(file))))["score"]) for name, file in TESTS.items()
    }


def quality(text: Path, kind: str, *, seeds: Sequence[int]) -> Iterator[Result]:
    """The same text, five times over, by one thread, with several seeds."""
    torch.set_num_threads(1)
    task = fitted(text, kind)
    ours, theirs = [], []
    for seed in seeds:
        ours.append(judge(task, learn(task, text, epochs=EPOCHS, seed=seed)))
        peer = _theirs(text, kind, 1, seed=seed)
        _go_over(peer, EPOCHS, corpus_file=str(text))
        theirs.append(judge(*_taken(task, peer)))
    ratios = []
    for name in TESTS:
        own, other = [each[name] for each in ours], [each[name] for each in theirs]
        yield _scored(f"{kind}, {name}, {len(seeds)} seeds", own, other, goal=None)
        ratios.append(statistics.mean(own) / statistics.mean(other))
    yield _scored(f"{kind}, quality: geometric mean of the three", [geometric_mean(ratios)], [1.0], goal=1.0)


def _taken(task: Embed, peer: Any) -> tuple[Embed, Word2Vec]:
    """gensim's words and vectors in the place of ours, to be asked by the same program."""
    names = "\n".join(peer.wv.index_to_key)
    assert task.learned is not None  # noqa: S101  it was fitted
    learned = Learned(**task.learned.model_dump() | {"words": names})  # a copy would remember the order of ours
    task = task.model_copy(update={"learned": learned})
    model = Word2Vec(
        WordIndex(names),
        np.ones(len(peer.wv), np.int64),
        size=SIZE,
        window=WINDOW,
        negative=NEGATIVE,
        mean=False,
        sample=0.0,
        examples=1,
        length=1,
    )
    model.vectors.copy_(torch.from_numpy(peer.wv.vectors))
    return task, model


def _scored(case: str, ours: Sequence[float], peer: Sequence[float], *, goal: float | None) -> Result:
    return Result(
        case=case,
        unit="score",
        threads=1,
        ours=statistics.mean(ours),
        peer=statistics.mean(peer),
        peer_name="gensim",
        ratio=statistics.mean(ours) / statistics.mean(peer),
        goal=goal,
        limit=None,
        ours_best=max(ours),
        peer_best=max(peer),
    )


def memory(folder: Path, *, words: int = 1_000_000) -> Result:
    """What a vocabulary of a million words needs at its peak, beside its two matrices."""
    small, large = folder / "small.txt", folder / "large.txt"
    small.write_text("a b c d e f\n" * 100)
    with large.open("w") as file:
        for start in range(0, words, 20):
            file.write(" ".join(f"word{number}" for number in range(start, start + 20)) + "\n")
    found, matrices = child(MEMORY, small, large), 2 * words * SIZE * 4 / 2**20
    return Result(
        case=f"memory of {words:,} words",
        unit="MB",
        threads=1,
        ours=found,
        peer=matrices,
        peer_name="the two matrices",
        ratio=matrices / found,
        goal=1 / 1.2,
        limit=matrices,
        ours_best=found,
        peer_best=matrices,
    )
