"""Word vectors compared with gensim on the same text: words per second, quality, and the memory of a million words.

``SEQLOOM_DATA`` is the folder of the data sets. The text is wikitext2, Brown and PTB in lowercase, with its lines
shuffled, since gensim decays its learning rate by lines and we decay ours by words.
"""

import os
import random
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import nn

from benchmarks import child_process
from benchmarks.measure import Call, Result, compare_costs, compare_rates, geometric_mean, interleave
from benchmarks.peers import gensim
from benchmarks.prepare import data_file, read_corpus
from seqloom import evaluation
from seqloom.data.text.passages import passages
from seqloom.data.text.word_counts import WordIndex
from seqloom.models.word2vec import Word2Vec
from seqloom.run_config import Config
from seqloom.tasks.embed import Embed, Learned
from seqloom.training.config import TrainConfig
from seqloom.training.engine import train
from seqloom.training.self_trained import SelfTrainedUpdate

SIZE, WINDOW, NEGATIVE, MIN_COUNT, SAMPLE, EPOCHS = 100, 5, 5, 5, 1e-3, 5
LEARNING_RATE, MIN_LEARNING_RATE = 0.025, 0.0001
KINDS = ("skipgram", "cbow")
SEEDS = (1, 2, 3)
GOAL = 1.5
LIMIT = 1.8e6
"""Words per second and thread of skip-gram: an estimate from its matrix products."""

TESTS = {
    "analogies": "word_analogy/questions-words.txt.gz",
    "WordSim": "word_similarity/wordsim353.tsv",
    "SimLex": "word_similarity/simlex999.txt",
}

MEMORY = """
import sys
from pathlib import Path
import torch
from benchmarks.embed import fitted_task, train_model
from seqloom.comparison.trial import peak_memory

torch.set_num_threads(1)
small, large = map(Path, sys.argv[1:])
train_model(fitted_task(small, "skipgram", min_count=1), small, epochs=1, seed=1)
before = peak_memory()
train_model(fitted_task(large, "skipgram", min_count=1), large, epochs=1, seed=1)
print(peak_memory() - before)
"""


def measure(*, quick: bool) -> Iterator[Result]:
    """Speed with one thread and with two, quality with one, then memory."""
    if not gensim.installed():
        raise SystemExit("gensim is not installed; scripts/peers creates an environment that has it")
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder, "text.txt")
        lines = [line.lower() for line in read_corpus()]
        random.Random(1).shuffle(lines)  # noqa: S311
        text.write_text("".join(f"{line}\n" for line in lines[: len(lines) // (8 if quick else 4)]))
        for kind in KINDS:
            for threads in sorted({1, min(2, os.cpu_count() or 1)}):
                yield speed(text, kind, threads=threads, repetitions=3 if quick else 7)
        text.write_text("".join(f"{line}\n" for line in lines))
        for kind in KINDS:
            yield from quality(text, kind, seeds=SEEDS[: 1 if quick else None])
        yield memory(Path(folder))


def fitted_task(text: Path, kind: str, *, min_count: int = MIN_COUNT) -> Embed:
    values: dict[str, Any] = {
        "train": str(text),
        "model": kind,
        "min_count": min_count,
        "vector_size": SIZE,
        "window": WINDOW,
    }
    task = Embed(**values, negative=NEGATIVE, subsample=SAMPLE)
    return task.fit(task.read(text))


def train_model(task: Embed, text: Path, *, epochs: int, seed: int) -> Word2Vec:
    torch.manual_seed(seed)
    model: Any = task.build_model()
    _train(model, text, epochs=epochs, seed=seed)
    trained: Word2Vec = model
    return trained


def _train(model: nn.Module, text: Path, *, epochs: int = 1, seed: int = 1) -> None:
    decay = MIN_LEARNING_RATE / LEARNING_RATE
    settings = TrainConfig(epochs=epochs, learning_rate=LEARNING_RATE, schedule="linear", decay=decay, seed=seed)
    for _ in train(SelfTrainedUpdate(cast(Word2Vec, model), lambda: passages(text), settings)):
        pass


def _gensim_model(text: Path, kind: str, *, threads: int, seed: int = 1) -> Any:
    return gensim.build(
        text,
        skip_gram=kind == "skipgram",
        size=SIZE,
        window=WINDOW,
        negative=NEGATIVE,
        min_count=MIN_COUNT,
        sample=SAMPLE,
        learning_rate=LEARNING_RATE,
        min_learning_rate=MIN_LEARNING_RATE,
        threads=threads,
        seed=seed,
    )


def speed(text: Path, kind: str, *, threads: int, repetitions: int) -> Result:
    """Words per second in one epoch; gensim reads the text in the faster of its two ways."""
    torch.set_num_threads(threads)
    model, peer = fitted_task(text, kind).build_model(), _gensim_model(text, kind, threads=threads)
    words = int(peer.corpus_total_words)
    sentences = [line.split() for line in text.read_text().splitlines()]
    calls: dict[str, Call] = {
        "ours": lambda: _train(model, text),
        "from a file": lambda: gensim.train(peer, 1, corpus_file=str(text)),
        "from lists": lambda: gensim.train(peer, 1, corpus_iterable=sentences),
    }
    timings = interleave(calls, repetitions=repetitions, warm_up=1)
    ours = timings.pop("ours")
    return compare_rates(
        f"{kind}, {SIZE} dimensions, window {WINDOW}, {NEGATIVE} negative samples",
        threads,
        items=words,
        unit="words/s",
        ours=ours,
        peer=min(timings.values(), key=lambda timing: timing.median),
        peer_name="gensim",
        goal=GOAL,
        limit=LIMIT * threads if kind == "skipgram" else None,
    )


def evaluate(task: Embed, model: Word2Vec) -> dict[str, float]:
    """The score of each test set, from 0 to 1."""
    config = Config(task, TrainConfig(batch_size=256))
    return {
        name: float(evaluation.evaluate(config, model, list(task.read(data_file(file))))["score"])
        for name, file in TESTS.items()
    }


def quality(text: Path, kind: str, *, seeds: Sequence[int]) -> Iterator[Result]:
    """Scores after five epochs over the same text with one thread, averaged over seeds."""
    torch.set_num_threads(1)
    task = fitted_task(text, kind)
    ours, theirs = [], []
    for seed in seeds:
        ours.append(evaluate(task, train_model(task, text, epochs=EPOCHS, seed=seed)))
        peer = _gensim_model(text, kind, threads=1, seed=seed)
        gensim.train(peer, EPOCHS, corpus_file=str(text))
        theirs.append(evaluate(*_from_gensim(task, peer)))
    runs = "1 seed" if len(seeds) == 1 else f"{len(seeds)} seeds"
    ratios = []
    for name in TESTS:
        own, other = [scores[name] for scores in ours], [scores[name] for scores in theirs]
        yield _compare_scores(f"{kind}, {name}, {runs}", own, other, goal=None)
        ratios.append(statistics.mean(own) / statistics.mean(other))
    case = f"{kind}, quality: geometric mean of the three tests"
    yield _compare_scores(case, [geometric_mean(ratios)], [1.0], goal=1.0)


def _from_gensim(task: Embed, peer: Any) -> tuple[Embed, Word2Vec]:
    """A task and a model with gensim's words and vectors, so that the same code evaluates both."""
    names = "\n".join(peer.wv.index_to_key)
    assert task.learned is not None  # noqa: S101  it was fitted
    learned = Learned(**task.learned.model_dump() | {"words": names})  # a copy would cache our word order
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


def _compare_scores(case: str, ours: Sequence[float], peer: Sequence[float], *, goal: float | None) -> Result:
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
    """Peak memory of training with a million words, compared with the size of the two weight matrices."""
    small, large = folder / "small.txt", folder / "large.txt"
    small.write_text("a b c d e f\n" * 100)
    with large.open("w") as file:
        for start in range(0, words, 20):
            file.write(" ".join(f"word{number}" for number in range(start, start + 20)) + "\n")
    matrices = 2 * words * SIZE * 4 / 2**20
    return compare_costs(
        f"training memory, {words:,} words",
        threads=1,
        unit="MB",
        ours=child_process.run(MEMORY, small, large),
        peer=matrices,
        peer_name="the two weight matrices",
        goal=1 / 1.2,
        limit=matrices,
    )
