"""What a check has shown, law by law: as data, and as a certificate to read."""

import textwrap
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from seqloom import terminal
from seqloom.testing.laws import BrokenLaw, Law, check_law, recorded_differences, statement

WIDTH = 100  # characters of a line
COLUMN = 30  # of them for what was found


@dataclass(frozen=True)
class LawResult:
    """What became of one law."""

    name: str
    statement: str
    cases: int  # settings it was checked with
    differences: dict[str, float]  # the largest one in each floating-point type; empty: nothing was compared
    problem: str = ""  # the error where the law is broken; empty: it holds
    finding: str = ""  # what was found there, and with which settings


@dataclass(frozen=True)
class GradientComparison:
    """Gradients of one path through the code beside others that should be equal."""

    first: str
    second: str
    dtype: str
    difference: float  # the largest, relative to the largest value of a gradient if that is above 1


@dataclass(frozen=True)
class SpeedComparison:
    """CPU time of a training step beside that of our LSTM, measured on this machine."""

    batch_size: int
    steps: int
    input_size: int
    hidden_size: int
    milliseconds: float  # median
    lstm_milliseconds: float
    ratio: float  # median of the ratios of measurements that follow one another
    lowest_ratio: float
    highest_ratio: float
    pairs: int


@dataclass(frozen=True, repr=False)
class CellReport:
    """What ``check_cell`` has found. Printing it gives a certificate."""

    name: str
    laws: tuple[LawResult, ...]
    skipped: int = 0  # laws that were not checked, because the cell breaks one they build on
    parameters: str = ""  # how many, with the sizes
    gradients: tuple[GradientComparison, ...] = ()
    path: str = ""  # fused, or the loop and why
    speed: SpeedComparison | None = None  # if requested

    @property
    def broken(self) -> list[LawResult]:
        """The laws that do not hold."""
        return [law for law in self.laws if law.problem]

    def to_dict(self) -> dict[str, Any]:
        """Everything as lists, numbers and strings."""
        return asdict(self)

    @property
    def verdict(self) -> str:
        """Whether all laws hold, in a line."""
        broken, count = len(self.broken), len(self.laws) + self.skipped
        kept = f"keeps all {count} laws" if not broken else f"breaks {broken} of {count} laws"
        return f"{self.name} {kept}"

    def __repr__(self) -> str:
        return f"<CellReport: {self.verdict}>"

    def __str__(self) -> str:
        return "\n".join(certificate_lines(self))


class LawChecker:
    """Checks laws and goes on where one is broken."""

    def __init__(self) -> None:
        self._results: dict[str, LawResult] = {}
        self.gradients: dict[str, float] = {}
        """The largest difference of gradients by the kernel and by the loop, by floating-point type."""

    def check(self, laws: Iterable[Law], case: Any) -> bool:
        """Whether all of these laws hold for a case."""
        results = [self._check(law, case) for law in laws]
        return all(results)

    def _check(self, law: Law, case: Any) -> bool:
        problem, finding = "", ""
        with recorded_differences() as differences:
            try:
                check_law(law, case)
            except BrokenLaw as error:
                problem = str(error)
                finding = f"{error.case}: {error.finding}"
        before = self._results.get(law.__name__, LawResult(law.__name__, statement(law), 0, {}))
        largest = dict(before.differences)
        for difference in differences:
            dtype = str(difference.dtype).removeprefix("torch.")
            largest[dtype] = max(largest.get(dtype, 0.0), difference.value)
            if law.__name__ == "kernel_equals_the_loop" and difference.name.startswith("gradient of"):
                self.gradients[dtype] = max(self.gradients.get(dtype, 0.0), difference.value)
        self._results[law.__name__] = LawResult(
            before.name,
            before.statement,
            cases=before.cases + 1,
            differences=largest,
            problem=before.problem or problem,
            finding=before.finding or finding,
        )
        return not problem

    @property
    def names(self) -> set[str]:
        return set(self._results)

    @property
    def results(self) -> tuple[LawResult, ...]:
        return tuple(self._results.values())


def print_report(report: CellReport) -> None:
    """Print the certificate."""
    terminal.print_lines(*certificate_lines(report))


def certificate_lines(report: CellReport) -> list[str]:
    """The certificate as text."""
    lines = [report.verdict + (f" ({report.parameters})" if report.parameters else ""), ""]
    for law in report.laws:
        lines += _law_lines(law, is_fused=report.path == "fused")
    if report.skipped:
        lines.append(f"  –  {report.skipped} more laws build on these, and were not checked")
    if report.gradients:
        lines += ["", "Gradients, largest difference:"]
        rows = [(f"{each.first} and {each.second}", each.dtype, _number(each.difference)) for each in report.gradients]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines += [f"     {what:{widths[0]}}  {dtype:{widths[1]}}  {value}" for what, dtype, value in rows]
    if report.path:
        lines += ["", *textwrap.wrap(f"Kernel: {_path(report.path)}", WIDTH, subsequent_indent="        ")]
    if report.speed is not None:
        lines += _speed_lines(report.name, report.speed)
    return lines


def _law_lines(law: LawResult, *, is_fused: bool) -> list[str]:
    sign = "✗" if law.problem else "✓"
    no_kernel = law.name.startswith("kernel_equals") and not is_fused
    text = textwrap.wrap(law.statement.replace("``", ""), WIDTH - 5 - COLUMN - 2)
    result = "broken" if law.problem else "no kernel" if no_kernel else _differences(law.differences)
    lines = [f"  {sign}  {text[0]:{WIDTH - 5 - COLUMN}}  {result}".rstrip(), *(f"     {line}" for line in text[1:])]
    if law.problem:
        indent = "       "
        lines += textwrap.wrap(law.finding, WIDTH, initial_indent=indent, subsequent_indent=indent)
    return lines


def _differences(differences: dict[str, float]) -> str:
    """The largest differences, such as ``2.2e-16, 1.2e-07 (f32)``."""
    if not differences:
        return "holds"
    if not any(differences.values()):
        return "bit for bit"
    short = {"float64": "f64", "float32": "f32"}
    return ", ".join(f"{_number(value)} ({short.get(dtype, dtype)})" for dtype, value in differences.items())


def _number(value: float) -> str:
    return "0" if value == 0 else f"{value:.1e}"


def _path(path: str) -> str:
    if path == "fused":
        return "fused: step is compiled into one loop over time, forward and backward"
    kind, _, reason = path.partition(": ")
    return f"{kind}: step runs in Python, one time step after the other, since {reason or 'it is not compiled'}"


def _speed_lines(name: str, speed: SpeedComparison) -> list[str]:
    sizes = (
        f"batch {speed.batch_size}, {speed.steps} steps, {speed.input_size} → {speed.hidden_size}, float32, one thread"
    )
    spread = f"{speed.lowest_ratio:.2f} to {speed.highest_ratio:.2f} in {speed.pairs} interleaved pairs"
    times = f"{name} {speed.milliseconds:.1f} ms, LSTM {speed.lstm_milliseconds:.1f} ms"
    return [
        f"Speed:  {speed.ratio:.2f} × the time of our LSTM ({spread})",
        f"        {times}: CPU time of a forward and a backward pass",
        f"        {sizes}; measured now on this machine",
    ]


def failure(report: CellReport) -> str:
    """The error for a report with broken laws: what was found first, and how many others are broken."""
    first, *others = report.broken
    return first.problem + (f" ({len(others)} more laws are broken)" if others else "")
