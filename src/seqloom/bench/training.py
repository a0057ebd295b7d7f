"""Whole trainings, update by update: ours beside the program that one would write with torch.nn alone."""

import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from seqloom.bench.measure import Result, Timing, take_turns
from seqloom.bench.show import show
from seqloom.data.loading import BatchLoader
from seqloom.data.readers.tagged import Sentence
from seqloom.data.readers.text_files import Place
from seqloom.models.character_encoder import CharacterConfig
from seqloom.models.encoder import RecurrenceConfig
from seqloom.tasks.language_model import LanguageModel
from seqloom.tasks.tag import BidirectionalEncoder, Tag, WordEmbeddingConfig
from seqloom.tasks.task import Task
from seqloom.training.config import TrainConfig
from seqloom.training.engine import train
from seqloom.training.gradient_update import GradientUpdate

WORDS = 10_000
PTB_GOAL, TAGGER_GOAL, OVERHEAD_GOAL = 1.2, 1.5, 0.97


class Program(nn.Module):
    """A language model or a tagger as it is usually written."""

    def __init__(
        self, symbols: int, size: int, hidden: int, *, outputs: int, layers: int, both: bool, dropout: float
    ) -> None:
        super().__init__()
        self.embed = nn.Embedding(symbols, size)
        self.lstm = nn.LSTM(size, hidden, layers, dropout=dropout, bidirectional=both, batch_first=True)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(hidden * (1 + both), outputs)

    def forward(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        values, state = self.lstm(self.dropout(self.embed(tokens)), state)
        return self.output(self.dropout(values)), state


def program(
    model: Program, batches: list[tuple[Tensor, Tensor]], optimizer: torch.optim.Optimizer, *, carry: bool
) -> Iterator[None]:
    """The loop around it; each step is one update."""
    criterion = nn.CrossEntropyLoss()
    state: Any = None
    while True:
        for tokens, target in batches:
            optimizer.zero_grad()
            logits, state = model(tokens, state)
            criterion(logits.flatten(0, 1), target.flatten()).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            state = tuple(part.detach() for part in state) if carry else None
            yield


def lines(count: int, length: int, *, words: int, seed: int = 1) -> list[str]:
    """Sentences of random words, the frequent ones more often."""
    chooser = random.Random(seed)  # noqa: S311  not a secret
    vocabulary = [f"w{number}" for number in range(words)]
    weights = [1 / (number + 10) for number in range(words)]
    return [" ".join(chooser.choices(vocabulary, weights, k=length)) for _ in range(count)]


def ours(task: Task, examples: list[Any], settings: TrainConfig) -> tuple[Iterator[Any], Iterator[None], BatchLoader]:
    """Our training, update by update, and its bare bones: forward, backward, clipping and optimiser alone."""
    batches = BatchLoader(
        lambda: iter(examples), task.collate, rows=settings.batch_size, steps=settings.bptt_steps, seed=settings.seed
    )
    torch.manual_seed(1)
    whole = train(GradientUpdate(task.build_model(), batches, task.loss, settings))
    return whole, bare(task, batches, settings), batches


def bare(task: Task, batches: BatchLoader, settings: TrainConfig) -> Iterator[None]:
    torch.manual_seed(1)
    model = task.build_model()
    kind: Callable[..., torch.optim.Optimizer] = torch.optim.SGD if settings.optimizer == "sgd" else torch.optim.Adam
    optimizer = kind(model.parameters(), lr=settings.learning_rate, fused=True)
    ready = [parts[0] for parts in batches.epoch(0)]
    state: Any = None
    while True:
        for batch in ready:
            found = task.loss(model, batch._replace(state=state))
            (found.total / found.items).backward()
            nn.utils.clip_grad_norm_(model.parameters(), settings.clip_norm)
            optimizer.step()
            optimizer.zero_grad()
            state = None
            yield


def rates(
    case: str, unit: str, items: int, timings: dict[str, Timing], *, threads: int, goals: dict[str, float]
) -> Iterator[Result]:
    """Items in a second against each peer."""
    own = timings["ours"]
    for peer, goal in goals.items():
        other = timings[peer]
        yield Result(
            case=case,
            unit=unit,
            threads=threads,
            ours=items / own.median,
            peer=items / other.median,
            peer_name=peer,
            ratio=other.median / own.median,
            goal=goal,
            limit=None,
            ours_best=items / own.minimum,
            peer_best=items / other.minimum,
        )


def language_model(threads: int, *, repetitions: int) -> Iterator[Result]:
    """PTB-medium (Zaremba et al. 2014): 2 × 650, batch 20, 35 steps, 10k words, dropout 0.5."""
    rows, steps, hidden = 20, 35, 650
    recurrence = RecurrenceConfig(hidden_size=hidden, layers=2, dropout=0.5)
    task = LanguageModel(train="", embedding_size=hidden, tie_embeddings=False, input_dropout=0.5, decoder=recurrence)
    examples = list(task.read(lines(rows * steps * 3, 20, words=WORDS)))
    task = task.fit(task.read([f"w{number}" for number in range(WORDS)]))
    settings = TrainConfig(batch_size=rows, bptt_steps=steps, optimizer="sgd", learning_rate=1.0, epochs=1000)
    whole, bones, batches = ours(task, examples, settings)
    torch.manual_seed(1)
    symbols = len(task.symbols.vocabulary)
    peer = Program(symbols, hidden, hidden, outputs=symbols, layers=2, both=False, dropout=0.5)
    ready = [(part.inputs.values, part.target) for (part,) in batches.epoch(0)][:-1]
    loop = program(peer, ready, torch.optim.SGD(peer.parameters(), lr=1.0), carry=True)
    timings = _race({"ours": whole, "torch": loop, "bare": bones}, repetitions=repetitions)
    goals = {"a plain torch program": PTB_GOAL, "our forward, backward and optimiser alone": OVERHEAD_GOAL}
    yield from rates("PTB-medium training", "tokens/s", rows * steps, _named(timings), threads=threads, goals=goals)


def tagger(threads: int, *, repetitions: int) -> Iterator[Result]:
    """A bidirectional LSTM of 256, 32 sentences of 25 words, 17 labels."""
    rows, steps, hidden = 32, 25, 256
    words = [line.split() for line in lines(rows * 40, steps, words=WORDS)]
    labels = [[f"L{int(word[1:]) % 17}" for word in sentence] for sentence in words]
    task = Tag(
        train="",
        words=WordEmbeddingConfig(embedding_size=100, unknown_dropout=0.0),
        characters=CharacterConfig(layers=0),
        input_dropout=0.0,
        encoder=BidirectionalEncoder(hidden_size=hidden, dropout=0.0),
    )
    examples = [
        Sentence(Place("random", number), tuple(sentence), tuple(found))
        for number, (sentence, found) in enumerate(zip(words, labels, strict=True))
    ]
    task = task.fit(examples)
    whole, bones, batches = ours(task, examples, TrainConfig(batch_size=rows, epochs=100_000))
    torch.manual_seed(1)
    peer = Program(WORDS + 2, 100, hidden, outputs=17, layers=1, both=True, dropout=0.0)
    ready = [(part.inputs.words, part.target) for (part,) in batches.epoch(0)]
    loop = program(peer, ready, torch.optim.Adam(peer.parameters(), lr=1e-3), carry=False)
    timings = _race({"ours": whole, "torch": loop, "bare": bones}, repetitions=repetitions)
    goals = {"a plain torch program": TAGGER_GOAL, "our forward, backward and optimiser alone": OVERHEAD_GOAL}
    yield from rates("bi-LSTM 256 tagger training", "sentences/s", rows, _named(timings), threads=threads, goals=goals)


def _race(contestants: dict[str, Iterator[Any]], *, repetitions: int) -> dict[str, Timing]:
    return take_turns({name: partial(next, loop) for name, loop in contestants.items()}, repetitions=repetitions)


def _named(timings: dict[str, Timing]) -> dict[str, Timing]:
    names = {"ours": "ours", "torch": "a plain torch program", "bare": "our forward, backward and optimiser alone"}
    return {names[name]: timing for name, timing in timings.items()}


def measure(*, quick: bool) -> Iterator[Result]:
    """With one thread, and with as many as there are."""
    for threads in sorted({1, torch.get_num_threads()}):
        torch.set_num_threads(threads)
        yield from language_model(threads, repetitions=3 if quick else 21)
        yield from tagger(threads, repetitions=7 if quick else 101)


def main(*, quick: bool, as_json: bool) -> None:
    """Measure, and print a table or JSON."""
    show(measure(quick=quick), as_json=as_json)
