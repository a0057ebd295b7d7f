"""Training, timed update by update, compared with the same program in plain PyTorch."""

import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from benchmarks.measure import Result, compare_rates, interleave
from seqloom.data.loading import BatchLoader
from seqloom.data.readers.sentences import Sentence
from seqloom.data.readers.text_files import Location
from seqloom.models.character_encoder import CharacterConfig
from seqloom.models.encoder import DecoderConfig
from seqloom.tasks.language_model import LanguageModel
from seqloom.tasks.tag import Tag
from seqloom.tasks.tag.settings import TaggingEncoder, WordEmbeddingConfig
from seqloom.tasks.task import Task
from seqloom.training.config import TrainConfig
from seqloom.training.engine import train
from seqloom.training.gradient_update import GradientUpdate, LossFunction

WORDS = 10_000
PTB_GOAL, TAGGER_GOAL, OVERHEAD_GOAL = 1.25, 1.5, 0.97
PYTORCH, WITHOUT_LOOP = "a plain PyTorch program", "our forward, backward and optimiser alone"


class TorchModel(nn.Module):
    """A language model or tagger as it is usually written in PyTorch."""

    def __init__(
        self, vocab_size: int, size: int, hidden: int, *, outputs: int, layers: int, bidirectional: bool, dropout: float
    ) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocab_size, size)
        self.lstm = nn.LSTM(size, hidden, layers, dropout=dropout, bidirectional=bidirectional, batch_first=True)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(hidden * (1 + bidirectional), outputs)

    def forward(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        values, state = self.lstm(self.dropout(self.embed(tokens)), state)
        return self.output(self.dropout(values)), state


def torch_updates(
    model: TorchModel,
    batches: list[tuple[Tensor, Tensor]],
    optimizer: torch.optim.Optimizer,
    *,
    stateful: bool,
    autocast: bool = False,  # forward pass and loss in bfloat16
) -> Iterator[None]:
    """The usual training loop; each iteration is one update."""
    criterion = nn.CrossEntropyLoss()
    state: Any = None
    while True:
        for tokens, target in batches:
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
                logits, state = model(tokens, state)
                loss = criterion(logits.flatten(0, 1), target.flatten())
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            state = tuple(part.detach() for part in state) if stateful else None
            yield


def random_sentences(count: int, length: int, *, words: int, seed: int = 1) -> list[str]:
    """Sentences of random words whose frequencies follow Zipf's law."""
    generator = random.Random(seed)  # noqa: S311  not a secret
    vocabulary = [f"w{number}" for number in range(words)]
    weights = [1 / (number + 10) for number in range(words)]
    return [" ".join(generator.choices(vocabulary, weights, k=length)) for _ in range(count)]


class Updates(NamedTuple):
    """Our training of a task; each iteration is one update."""

    training: Iterator[Any]
    without_loop: Iterator[None]  # forward, backward, clipping and optimiser only
    batches: BatchLoader


class Case(NamedTuple):
    """What both programs train."""

    name: str
    task: Task
    examples: list[Any]
    settings: TrainConfig
    items: int  # of one update
    unit: str
    torch_updates: Callable[..., Iterator[None]]  # of the peer; autocast=True computes in bfloat16


def our_updates(task: Task, examples: list[Any], settings: TrainConfig, loss: LossFunction | None = None) -> Updates:
    batches = BatchLoader(
        lambda: iter(examples),
        task.collate,
        batch_size=settings.batch_size,
        bptt_steps=settings.bptt_steps,
        seed=settings.seed,
    )
    torch.manual_seed(1)
    training = train(GradientUpdate(task.build_model(), batches, loss or task.loss, settings))
    return Updates(training, _without_loop(task, batches, settings), batches)


def _without_loop(task: Task, batches: BatchLoader, settings: TrainConfig) -> Iterator[None]:
    torch.manual_seed(1)
    model = task.build_model()
    kind: Callable[..., torch.optim.Optimizer] = torch.optim.SGD if settings.optimizer == "sgd" else torch.optim.Adam
    optimizer = kind(model.parameters(), lr=settings.learning_rate, fused=True)
    collated = [parts[0] for parts in batches.epoch(0)]
    while True:
        for batch in collated:
            loss = task.loss(model, batch._replace(state=None))
            (loss.total / loss.items).backward()
            nn.utils.clip_grad_norm_(model.parameters(), settings.clip_norm)
            optimizer.step()
            optimizer.zero_grad()
            yield


def language_model() -> Case:
    """PTB-medium (Zaremba et al. 2014): 2 × 650, batch 20, 35 steps, 10k words, dropout 0.5."""
    rows, steps, hidden = 20, 35, 650
    recurrence = DecoderConfig(hidden_size=hidden, layers=2, dropout=0.5)
    task = LanguageModel(train="", embedding_size=hidden, tie_embeddings=False, input_dropout=0.5, decoder=recurrence)
    examples = list(task.read(random_sentences(rows * steps * 3, 20, words=WORDS)))
    task = task.fit(task.read([f"w{number}" for number in range(WORDS)]))
    settings = TrainConfig(batch_size=rows, bptt_steps=steps, optimizer="sgd", learning_rate=1.0, epochs=1000)

    def peer(batches: BatchLoader, *, autocast: bool = False) -> Iterator[None]:
        torch.manual_seed(1)
        symbols = len(task.tokenizer.vocabulary)
        model = TorchModel(symbols, hidden, hidden, outputs=symbols, layers=2, bidirectional=False, dropout=0.5)
        pairs = [(part.inputs.values, part.target) for (part,) in batches.epoch(0)][:-1]
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        return torch_updates(model, pairs, optimizer, stateful=True, autocast=autocast)

    return Case("PTB-medium training", task, examples, settings, rows * steps, "tokens/s", peer)


def tagger() -> Case:
    """A bidirectional LSTM of 256 units, batches of 32 sentences of 25 words, 17 labels."""
    rows, steps, hidden = 32, 25, 256
    sentences = [line.split() for line in random_sentences(rows * 40, steps, words=WORDS)]
    task = Tag(
        train="",
        words=WordEmbeddingConfig(embedding_size=100, unknown_dropout=0.0),
        characters=CharacterConfig(layers=0),
        input_dropout=0.0,
        encoder=TaggingEncoder(hidden_size=hidden, dropout=0.0),
    )
    examples = [
        Sentence(Location("random", number), tuple(words), tuple(f"L{int(word[1:]) % 17}" for word in words))
        for number, words in enumerate(sentences)
    ]
    task = task.fit(examples)

    def peer(batches: BatchLoader, *, autocast: bool = False) -> Iterator[None]:
        torch.manual_seed(1)
        model = TorchModel(WORDS + 2, 100, hidden, outputs=17, layers=1, bidirectional=True, dropout=0.0)
        pairs = [(part.inputs.words, part.target) for (part,) in batches.epoch(0)]
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        return torch_updates(model, pairs, optimizer, stateful=False, autocast=autocast)

    settings = TrainConfig(batch_size=rows, epochs=100_000)
    return Case("bi-LSTM 256 tagger training", task, examples, settings, rows, "sentences/s", peer)


def compare(case: Case, threads: int, *, goal: float, repetitions: int) -> Iterator[Result]:
    """Our training, the peer's, and ours without the training loop."""
    ours = our_updates(case.task, case.examples, case.settings)
    theirs = case.torch_updates(ours.batches)
    loops: dict[str, Iterator[Any]] = {"ours": ours.training, PYTORCH: theirs, WITHOUT_LOOP: ours.without_loop}
    timings = interleave({name: partial(next, loop) for name, loop in loops.items()}, repetitions=repetitions)
    rates = partial(compare_rates, case.name, threads, items=case.items, unit=case.unit)
    for name, ratio in ((PYTORCH, goal), (WITHOUT_LOOP, OVERHEAD_GOAL)):
        yield rates(ours=timings["ours"], peer=timings[name], peer_name=name, goal=ratio)


def measure(*, quick: bool) -> Iterator[Result]:
    """Both models, with one thread and with all threads."""
    for threads in sorted({1, torch.get_num_threads()}):
        torch.set_num_threads(threads)
        yield from compare(language_model(), threads, goal=PTB_GOAL, repetitions=3 if quick else 21)
        yield from compare(tagger(), threads, goal=TAGGER_GOAL, repetitions=7 if quick else 101)
