"""Whether a tagger that reads in both directions makes fewer errors than one that reads in one direction.

The role of a token in a Python statement depends on both sides: a name is a target because of the ``=`` after it, and
an attribute because of the ``.`` before it.
"""

import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from seqloom.data.batch import Batch, Padded, pad
from seqloom.data.builtin import datasets
from seqloom.insight.plotting import COLOURS, panel_figure
from seqloom.lab.estimate import Estimate, conclude
from seqloom.lab.experiment import Experiment, Table, Trial, Verdict
from seqloom.lab.network import IGNORED, Network, fit
from seqloom.lab.panels import draw_dots, legend_below, set_title
from seqloom.layers.build import recurrent
from seqloom.layers.layer import count_parameters
from seqloom.training.config import TrainConfig

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORWARD, BACKWARD, BOTH = "forward", "backward", "both directions"
DIRECTIONS = (FORWARD, BACKWARD, BOTH)
WORDS = 250
"""The most frequent tokens; the others are known by the kind of their first character."""
KINDS = ("letter", "digit", "quote", "other")
ROLES_SHOWN = 8


@dataclass(frozen=True)
class RoleErrors:
    """The errors of one tagger on the tokens of one role."""

    direction: str
    seed: int
    role: str
    tokens: int
    errors: int
    parameters: int  # of the recurrent layer


@dataclass(frozen=True)
class Statements:
    """Tagged statements as numbers of words and roles."""

    words: list[Tensor]  # (T,) each
    roles: list[Tensor]  # (T,) each
    size: int  # different words
    names: tuple[str, ...]  # of the roles

    def batch(self, indices: Sequence[int]) -> Batch:
        """Statements with one-hot inputs, padded to the longest."""
        words, mask = pad([self.words[index] for index in indices])
        roles = pad([self.roles[index] for index in indices], fill=IGNORED).values
        return Batch(Padded(functional.one_hot(words, self.size).float(), mask), roles, items=int(mask.sum()))

    def sampler(self, batch_size: int, *, seed: int) -> Callable[[], Batch]:
        """A function that draws batches with replacement."""
        draw = torch.Generator().manual_seed(seed)
        return lambda: self.batch(torch.randint(len(self.words), (batch_size,), generator=draw).tolist())


class Bidirectional(Experiment):
    """Taggers of Python statements that read forwards, backwards, or in both directions."""

    topic: ClassVar[str] = "Stacks, directions and pooling"
    question: ClassVar[str] = "Does a tagger gain from reading in both directions?"
    claim: ClassVar[str] = "A bidirectional network tags better than one that reads in one direction."
    source: ClassVar[str] = (
        "Schuster & Paliwal 1997; Graves & Schmidhuber 2005; Huang, Xu & Yu 2015; lectures on sequence modelling"
    )
    rule: ClassVar[str] = (
        "All taggers have outputs of the same width: the bidirectional one has half as many units in each direction, "
        "and no more parameters. The claim holds if its errors on held-out modules, divided by those of the forward "
        "tagger and by those of the backward one (geometric mean over seeds), are below 1 with the whole 95 % "
        "interval; it does not hold if one of the intervals lies above."
    )
    quick: ClassVar[Mapping[str, Any]] = {"seeds": 2, "hidden_size": 8, "updates": 6, "batch_size": 8}
    thorough: ClassVar[Mapping[str, Any]] = {"seeds": 8, "updates": 800}
    row: ClassVar[type[Any]] = RoleErrors

    seeds: int = Field(5, ge=1, description="Repetitions, each with another random seed.")
    hidden_size: int = Field(48, ge=2, multiple_of=2, description="Outputs of each tagger's recurrent layer.")
    cell: str = Field("lstm", description="Cell of the recurrent layer.")
    batch_size: int = Field(32, ge=1, description="Statements per update.")
    updates: int = Field(500, ge=1, description="Updates of each training.")
    learning_rate: float = Field(1e-2, gt=0, description="Peak learning rate of Adam; it falls along a cosine.")

    def trials(self) -> list[Trial]:
        return [
            Trial(f"{direction}, seed {seed}", partial(self._measure, direction, seed))
            for seed in self.all_seeds
            for direction in DIRECTIONS
        ]

    def build(self, direction: str, statements: Statements) -> Network:
        width = self.hidden_size // 2 if direction == BOTH else self.hidden_size
        layer = recurrent(
            self.cell, statements.size, width, reverse=direction == BACKWARD, bidirectional=direction == BOTH
        )
        return Network(layer, len(statements.names))

    def _measure(self, direction: str, seed: int) -> list[RoleErrors]:
        training, held_out = load_statements()
        torch.manual_seed(seed)
        network = self.build(direction, training)
        settings = TrainConfig(updates=self.updates, learning_rate=self.learning_rate)
        fit(network, training.sampler(self.batch_size, seed=seed), settings)
        batch = held_out.batch(range(len(held_out.words)))
        real = batch.inputs.mask
        roles = batch.target[real]
        with torch.no_grad():
            wrong = network(batch.inputs, real).argmax(-1) != roles
        parameters = count_parameters(network.layer)
        return [
            RoleErrors(direction, seed, name, int((roles == index).sum()), int(wrong[roles == index].sum()), parameters)
            for index, name in enumerate(held_out.names)
            if bool((roles == index).any())
        ]

    def verdict(self, rows: Sequence[RoleErrors]) -> Verdict:
        estimates = {
            f"errors of both directions / {other}": Estimate.of_geometric_mean(error_ratios(rows, other))
            for other in (FORWARD, BACKWARD)
        }
        forward, backward = estimates.values()
        rates = {direction: Estimate.of_mean(list(error_rates(rows, direction).values())) for direction in DIRECTIONS}
        return Verdict(
            conclude(forward.is_below(1), backward.is_below(1)),
            f"Reading in both directions, the tagger makes {forward.format()} times as many errors as forwards and "
            f"{backward.format()} times as many as backwards: {rates[BOTH].value:.1%} of the tokens are wrong, "
            f"{rates[FORWARD].value:.1%} forwards and {rates[BACKWARD].value:.1%} backwards.",
            {**estimates, **{f"error rate, {name}": rate for name, rate in rates.items()}},
        )

    def table(self, rows: Sequence[RoleErrors]) -> Table:
        cells = []
        for direction in DIRECTIONS:
            parameters = max(row.parameters for row in rows if row.direction == direction)
            rate = Estimate.of_mean(list(error_rates(rows, direction).values()))
            cells.append([direction, f"{parameters:,}", rate.format(percent=True)])
        return ["tagger", "parameters", "wrong tokens"], cells

    def draw(self, rows: Sequence[RoleErrors]) -> "Figure":
        figure = panel_figure(2, width=5.4, height=4.1)
        total_panel, role_panel = figure.axes
        draw_dots(
            total_panel,
            {name: [100 * rate for rate in error_rates(rows, name).values()] for name in DIRECTIONS},
        )
        total_panel.set_xlabel("wrong tokens, %")
        total_panel.set_xlim(0, None)
        set_title(total_panel, "Errors of each seed")
        roles = _roles_by_errors(rows)[:ROLES_SHOWN]
        height = 0.26
        for index, direction in enumerate(DIRECTIONS):
            role_panel.barh(
                [position + (1 - index) * height for position in range(len(roles), 0, -1)],
                [100 * _role_rate(rows, direction, role) for role in roles],
                height=height,
                color=COLOURS[index],
                label=direction,
            )
        role_panel.set_yticks(range(len(roles), 0, -1), [role.lower() for role in roles])
        role_panel.grid(visible=False, axis="y")
        role_panel.set_xlabel("wrong tokens of this role, %")
        set_title(role_panel, "Roles with the most errors")
        legend_below(figure, role_panel)
        return figure


@cache
def load_statements() -> tuple[Statements, Statements]:
    """Statements of the Python standard library with the role of each token: to train on, and of other modules."""
    with tempfile.TemporaryDirectory() as folder:
        files = datasets.build("python_tags", Path(folder) / "tags")
        contents = [path.read_text(encoding="utf-8") for path in (files.train, files.dev)]
    tagged = [[_columns(block) for block in content.strip().split("\n\n")] for content in contents]
    counts = Counter(word for words, _ in tagged[0] for word in words)
    known = {word: index for index, (word, _) in enumerate(counts.most_common(WORDS))}
    names = tuple(sorted({role for _, roles in tagged[0] for role in roles}))

    def numbers(part: list[tuple[list[str], list[str]]]) -> Statements:
        # A role that training does not have cannot be learnt: such statements are skipped.
        usable = [(words, roles) for words, roles in part if set(roles) <= set(names)]
        return Statements(
            [torch.tensor([known.get(word, len(known) + _kind(word)) for word in words]) for words, _ in usable],
            [torch.tensor([names.index(role) for role in roles]) for _, roles in usable],
            len(known) + len(KINDS),
            names,
        )

    training, held_out = (numbers(part) for part in tagged)
    return training, held_out


def _kind(word: str) -> int:
    """The number of the kind of a word's first character."""
    first = word[0]
    kind = "letter" if first.isalpha() or first == "_" else "digit" if first.isdigit() else "other"
    return KINDS.index("quote" if first in "'\"" else kind)


def _columns(block: str) -> tuple[list[str], list[str]]:
    """The words and roles of a statement in CoNLL format."""
    pairs = [line.split("\t") for line in block.splitlines()]
    return [word for word, _ in pairs], [role for _, role in pairs]


def error_rates(rows: Sequence[RoleErrors], direction: str) -> dict[int, float]:
    """The share of wrong tokens over all roles, by seed."""
    tokens, errors = Counter[int](), Counter[int]()
    for row in rows:
        if row.direction == direction:
            tokens[row.seed] += row.tokens
            errors[row.seed] += row.errors
    return {seed: errors[seed] / tokens[seed] for seed in tokens}


def error_ratios(rows: Sequence[RoleErrors], other: str) -> list[float]:
    """The errors of the bidirectional tagger divided by those of another one, by seed; none counts as half an error."""
    least = 0.5 / sum(row.tokens for row in rows if (row.direction, row.seed) == (other, rows[0].seed))
    reference = error_rates(rows, other)
    return [max(rate, least) / max(reference[seed], least) for seed, rate in error_rates(rows, BOTH).items()]


def _role_rate(rows: Sequence[RoleErrors], direction: str, role: str) -> float:
    chosen = [row for row in rows if (row.direction, row.role) == (direction, role)]
    return sum(row.errors for row in chosen) / sum(row.tokens for row in chosen)


def _roles_by_errors(rows: Sequence[RoleErrors]) -> list[str]:
    """The roles with the most errors of all taggers first."""
    errors = Counter[str]()
    for row in rows:
        errors[row.role] += row.errors
    return [role for role, _ in errors.most_common()]
