"""A diagnosis as data: what was measured, and the findings that follow from it."""

import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from seqloom import terminal
from seqloom.diagnosis.activity import GateUse, UnitUse
from seqloom.diagnosis.attention import HeadUse
from seqloom.diagnosis.dynamics import Dynamics
from seqloom.diagnosis.gradients import GradientByLag
from seqloom.diagnosis.training_record import TrainingRecord

Severity = Literal["problem", "warning", "healthy"]
SEVERITIES: tuple[Severity, ...] = ("problem", "warning", "healthy")
"""The most serious first."""


@dataclass(frozen=True)
class Finding:
    """One conclusion about a model or its training."""

    name: str  # what was examined: memory, stability, gates, units, attention, learning, clipping …
    severity: Severity
    verdict: str  # in plain words, with what to try
    keys: tuple[str, ...] = ()  # of the configuration, that may change it; empty: nothing has to change
    evidence: dict[str, Any] = field(default_factory=dict)  # numbers
    part: str = ""  # of the model, such as encoder; empty: of the training as a whole
    learning_rate: Literal["", "lower", "raise"] = ""  # how train.learning_rate should change; empty: it says nothing

    @property
    def title(self) -> str:
        """The name with its part, such as memory of the encoder."""
        return f"{self.name} ({self.part})" if self.part else self.name


@dataclass(frozen=True)
class PartDiagnosis:
    """What was measured in a part of a model that reads sequences, such as its encoder."""

    name: str
    key: str  # of the configuration, such as task.encoder; empty: there is no configuration
    cell: str  # name of the cell of its first layer; transformer; empty: another layer
    sequences: int
    length: float  # median number of steps
    targets: int  # for which gradients were computed
    loss_at_ends: bool  # the loss enters only at the ends of sequences
    gradients: list[GradientByLag]
    dynamics: list[Dynamics]
    gates: list[GateUse]
    units: list[UnitUse]


@dataclass(frozen=True, repr=False)
class Diagnosis:
    """What the doctor measured and concluded. ``print`` shows the findings; ``draw`` writes a picture for each."""

    model: str  # name of the run, or type of the module
    source: str  # where the sequences come from; empty: none were read, or they were given in memory
    findings: list[Finding]  # the most serious first
    parts: list[PartDiagnosis]
    heads: list[HeadUse] = field(default_factory=list)
    training: TrainingRecord | None = None
    notes: list[str] = field(default_factory=list)

    def __repr__(self) -> str:
        counts = {severity: sum(finding.severity == severity for finding in self.findings) for severity in SEVERITIES}
        shown = ", ".join(f"{count} {severity}" for severity, count in counts.items() if count)
        return f"<Diagnosis: {self.model}, {shown or 'nothing measured'}>"

    def __str__(self) -> str:
        from seqloom.diagnosis.report import report_lines

        return "\n".join(report_lines(self))

    @property
    def severity(self) -> Severity:
        """The most serious of the findings."""
        return min((finding.severity for finding in self.findings), key=SEVERITIES.index, default="healthy")

    def find(self, name: str, part: str = "") -> Finding:
        """The finding of a name, in a part of the model if there are several."""
        for finding in self.findings:
            if finding.name == name and (not part or finding.part == part):
                return finding
        known = ", ".join(dict.fromkeys(finding.name for finding in self.findings))
        raise KeyError(f"there is no finding {name!r} (there are: {known or 'none'})")

    def to_dict(self) -> dict[str, Any]:
        """Everything as lists, numbers and strings; what is no finite number is None."""
        values: dict[str, Any] = terminal.json_value(asdict(self))
        return values

    def to_json(self) -> str:
        """The same as JSON."""
        return terminal.json_line(self.to_dict())

    def summary(self) -> dict[str, Any]:
        """The findings and the main numbers, as a training records them."""
        memory = {
            f"{part.name}, {curve.layer}, {curve.direction}": curve.memory
            for part in self.parts
            for curve in part.gradients
        }
        exponents = {
            f"{part.name}, {each.layer}, {each.direction}": round(each.exponent, 4)
            for part in self.parts
            for each in part.dynamics
            if math.isfinite(each.exponent)
        }
        return {
            "severity": self.severity,
            "findings": {finding.title: finding.severity for finding in self.findings},
            "memory": memory,
            "exponent": exponents,
        }

    def draw(self, folder: str | Path, *, suffix: str = ".png") -> list[Path]:
        """Write a picture for each finding that has one; needs matplotlib."""
        from seqloom.diagnosis.plots import draw_findings

        return draw_findings(self, Path(folder), suffix=suffix)
