"""The contract of an experiment: a claim, options, trials, a verdict by a stated rule, a table and a figure."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from seqloom.config import ConfigSection
from seqloom.lab.estimate import Estimate, Status

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Table = tuple[list[str], list[list[str]]]
"""Column headings and rows of a table."""


TOPICS = (
    "Memory and gradients",
    "Cells",
    "Stacks, directions and pooling",
    "Language models and word vectors",
    "Translation and search",
    "Transcription",
    "Attention and positions",
    "Learning",
)
"""The subjects of experiments, in the order of lists."""

Preset = Literal["default", "quick", "thorough"]
"""Which options an experiment starts from."""


@dataclass(frozen=True)
class Trial:
    """A part of an experiment that depends on no other one."""

    name: str  # shown as progress
    measure: Callable[[], Sequence[Any]]  # the result rows


@dataclass(frozen=True)
class Verdict:
    """What the measurements say about the claim."""

    status: Status
    sentence: str  # with the numbers and the intervals that decide it
    estimates: Mapping[str, Estimate] = field(default_factory=dict)  # these numbers by name


class Experiment(ConfigSection):
    """A claim of the literature and the experiment that tests it; its fields are the options.

    An experiment is one file in ``lab/``. ``trials`` measures, and the other methods are functions of the rows that the
    trials return, so that table, verdict and figure can be made again from stored results. A trial runs in one thread
    with torch's random numbers seeded by ``seed``; one that repeats something calls ``torch.manual_seed`` itself.
    """

    topic: ClassVar[str]  # one of TOPICS
    question: ClassVar[str]
    claim: ClassVar[str]
    source: ClassVar[str]
    rule: ClassVar[str]  # how the verdict follows from the measurements
    quick: ClassVar[Mapping[str, Any]]  # options for a run of less than half a second
    thorough: ClassVar[Mapping[str, Any]]  # options for the documentation: more seeds, a few minutes
    row: ClassVar[type[Any]]  # a frozen dataclass, of which trials return several

    seeds: int = Field(3, ge=1, description="Repetitions, each with another random seed.")
    seed: int = Field(1, ge=0, description="First random seed; the same seed gives the same result.")

    @classmethod
    def preset(cls, preset: Preset) -> Mapping[str, Any]:
        """The options that differ from the default."""
        return {"default": {}, "quick": cls.quick, "thorough": cls.thorough}[preset]

    @property
    def all_seeds(self) -> range:
        return range(self.seed, self.seed + self.seeds)

    @abstractmethod
    def trials(self) -> list[Trial]:
        """What has to be measured, short trials first."""

    @abstractmethod
    def verdict(self, rows: Sequence[Any]) -> Verdict:
        """Whether the claim holds, by ``rule``."""

    @abstractmethod
    def table(self, rows: Sequence[Any]) -> Table:
        """The measurements as a table that fits a terminal."""

    @abstractmethod
    def draw(self, rows: Sequence[Any]) -> "Figure":
        """One figure that shows why the verdict is as it is."""
