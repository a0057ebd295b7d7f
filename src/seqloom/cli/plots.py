"""``seqloom plot``: pictures of several runs, and of the building blocks of models."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from seqloom.cli.completion import complete_run
from seqloom.cli.options import AsJson, errors

SUBJECTS = ("curves", "activations", "positions")


def plot(
    subject: Annotated[
        str,
        typer.Argument(
            help="curves: learning curves of runs; activations: activation functions and their derivatives; positions: "
            "position schemes of Transformers."
        ),
    ],
    runs: Annotated[
        list[Path] | None,
        typer.Argument(metavar="RUN", help="curves: folders of training runs.", autocompletion=complete_run),
    ] = None,
    *,
    output: Annotated[
        Path | None, typer.Option(help="File of the picture, .png, .svg or .pdf (default: SUBJECT.png).")
    ] = None,
    theme: Annotated[str, typer.Option(metavar="THEME", help="Background: light (default) or dark.")] = "light",
    as_json: AsJson = False,
) -> None:
    """Draw learning curves, activation functions or positions. Curves of several runs share one picture."""
    from seqloom import terminal
    from seqloom.insight.plotting import SUFFIXES, check_theme, plot_theme

    with errors():
        if subject not in SUBJECTS:
            raise ValueError(f"expected one of {', '.join(SUBJECTS)}, got {subject!r}")
        if runs and subject != "curves":
            raise ValueError(f"{subject} need no run: omit {runs[0]}")
        file = output or Path(f"{subject}.png")
        if file.suffix not in SUFFIXES:
            raise ValueError(f"{file}: a picture is written as {', '.join(SUFFIXES)}")
        draw: Callable[[Path], Any] = {
            "curves": lambda file: _draw_curves(runs or [], file),
            "activations": _draw_activations,
            "positions": _draw_positions,
        }[subject]
        with plot_theme(check_theme(theme)):
            data = draw(file)
        if as_json:
            terminal.print_json({subject: data, "plot": str(file)})
        else:
            terminal.print_lines(f"Plot: {file}")


def _draw_curves(runs: Sequence[Path], file: Path) -> list[dict[str, Any]]:
    from seqloom.insight.run_curves import draw_run_curves, run_curves
    from seqloom.length_report import distinct_names
    from seqloom.run import Run
    from seqloom.run_config import load_config

    if not runs:
        raise ValueError("there is nothing to draw: give the folders of one or more runs")
    names = distinct_names([str(path.resolve()) for path in runs])
    curves = []
    for name, path in zip(names, runs, strict=True):
        run = Run.open(path)
        task = load_config(run).task
        curves.append(
            run_curves(run.rows(), name=name, metric=task.main_metric, higher_is_better=task.higher_is_better)
        )
    draw_run_curves(curves, file)
    return [each.to_dict() for each in curves]


def _draw_activations(file: Path) -> list[dict[str, Any]]:
    from seqloom.insight.activation_plot import NAMES, activation_curve, draw_activations

    draw_activations(file)
    return [activation_curve(name).to_dict() for name in NAMES]


def _draw_positions(file: Path) -> list[dict[str, Any]]:
    from seqloom.insight.position_plot import LENGTH, SCHEMES, SIZE, draw_positions, position_picture

    draw_positions(file)
    pictures = [position_picture(kind, length=LENGTH, size=SIZE) for kind in SCHEMES]
    return [{"title": each.title, "columns": each.columns, "values": each.values.tolist()} for each in pictures]
