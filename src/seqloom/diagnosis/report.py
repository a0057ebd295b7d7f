"""A diagnosis as text: the findings, the most serious first, and the main numbers of each layer."""

import math
import textwrap
from collections.abc import Iterator
from pathlib import Path

from seqloom import files, terminal
from seqloom.diagnosis.diagnosis import SEVERITIES, Diagnosis
from seqloom.formats import format_number
from seqloom.insight.plotting import named_plots
from seqloom.insight.theme import Theme

MARKS = {"problem": "✗", "warning": "!", "healthy": "✓"}


def report_lines(diagnosis: Diagnosis, *, width: int = 0) -> Iterator[str]:
    """The lines of a report; ``width``: of the text, 0: that of the terminal."""
    width = width or terminal.text_width()
    counts = {severity: sum(each.severity == severity for each in diagnosis.findings) for severity in SEVERITIES}
    nouns = {"problem": "problems", "warning": "warnings", "healthy": "healthy"}
    shown = ", ".join(
        f"{count} {severity if count == 1 else nouns[severity]}" for severity, count in counts.items() if count
    )
    yield f"{diagnosis.model}: {shown or 'nothing could be measured'}"
    for part in diagnosis.parts:
        where = f" of {diagnosis.source}" if diagnosis.source else ""
        yield (
            f"{part.name}: gradients of {part.targets} targets in {part.sequences} sequences{where}, "
            f"{part.length:.0f} steps long (median)"
        )
    for finding in diagnosis.findings:
        yield ""
        yield f"{MARKS[finding.severity]} {finding.severity}: {finding.title}"
        yield from textwrap.wrap(
            finding.verdict,
            width,
            initial_indent="  ",
            subsequent_indent="  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    rows = list(_rows(diagnosis))
    if rows:
        yield ""
        yield from terminal.table_lines(
            ("part", "layer", "direction", "sees (steps)", "gradient per step", "singular value", "Lyapunov exponent"),
            rows,
        )


def report(diagnosis: Diagnosis, folder: Path | None, *, suffix: str, theme: Theme = "light", as_json: bool) -> None:
    """Print a diagnosis, and draw a picture of each finding into a folder, if there is one."""
    for note in diagnosis.notes:
        terminal.print_note(note)
    if as_json:
        terminal.print_json(diagnosis.to_dict())
    else:
        terminal.print_lines(*report_lines(diagnosis))
    if folder is None or not diagnosis.findings:
        return
    files.refuse_linked_folders(folder / "plot", inside=folder)
    try:
        with named_plots(diagnosis.model, theme=theme):
            pictures = diagnosis.draw(folder, suffix=suffix)
    except ModuleNotFoundError as error:
        terminal.print_note(f"no pictures were drawn: {error}")
        return
    if pictures and not as_json:
        terminal.print_lines("", f"{len(pictures)} pictures: {folder}")


def _rows(diagnosis: Diagnosis) -> Iterator[tuple[str, ...]]:
    """One row for each layer and direction."""
    for part in diagnosis.parts:
        by_layer = {(each.layer, each.direction): each for each in part.dynamics}
        for curve in part.gradients:
            each = by_layer.get((curve.layer, curve.direction))
            sees = f"≥ {curve.reached}" if curve.memory is None else str(curve.memory)
            numbers = (curve.factor, each.singular_value if each else math.nan, each.exponent if each else math.nan)
            yield (
                part.name,
                curve.layer,
                curve.direction,
                sees,
                *("" if math.isnan(number) else format_number(number, 3) for number in numbers),
            )
