"""Commands that train many models: comparisons, sweeps, experiments. Slow imports are inside the commands."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seqloom.cli.completion import complete_experiment
from seqloom.cli.options import (
    AsJson,
    Configuration,
    DataFiles,
    Overrides,
    TaskName,
    errors,
)

if TYPE_CHECKING:
    from seqloom.config import Document
    from seqloom.lab.experiment import Preset

MAX_TRIALS = 20
"""Rows of the table that ``seqloom sweep`` prints."""


def compare(
    config: Configuration = "",
    variants: Annotated[
        list[str] | None, typer.Argument(help="Variants: comma-separated changes, a .toml file, or base (no changes).")
    ] = None,
    *,
    task: TaskName = "",
    data: DataFiles = "",
    minutes: Annotated[
        float, typer.Option(min=0, help="Training budget of each run in minutes (0: as configured).")
    ] = 0.0,
    tokens: Annotated[int, typer.Option(min=0, help="Training budget of each run in tokens (0: as configured).")] = 0,
    seeds: Annotated[int, typer.Option(min=1, help="Runs per variant, each with another random seed.")] = 1,
    folds: Annotated[
        int, typer.Option(min=0, help="Folds of a cross-validation on the training file (0: no cross-validation).")
    ] = 0,
    overrides: Annotated[
        list[str] | None,
        typer.Option(
            "--override", metavar="KEY=VALUE", help="Change for all variants, such as train.epochs=5; repeatable."
        ),
    ] = None,
    layers: Annotated[
        list[str] | None,
        typer.Option("--layer", metavar="MODULE:NAME", help="Variant with a custom layer or cell; repeatable."),
    ] = None,
    match_parameters: Annotated[
        bool,
        typer.Option("--match-parameters", help="Change hidden_size so that all variants are as large as the first."),
    ] = False,
    output: Annotated[
        Path | None, typer.Option(help="Folder of the runs and the table; finished runs in it are not repeated.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Train variants at equal budget and compare them. Prints scores, speed and memory in a table.

    Each variant is compared with the first one: example by example, or fold by fold with --folds.
    """
    from seqloom import terminal
    from seqloom.comparison import compare as comparison
    from seqloom.comparison import table
    from seqloom.interrupt import Interrupted
    from seqloom.run_document import read_document

    with errors():
        document: str | Document = config
        if task or data:  # the first argument is a variant, too
            variants = [*filter(None, [config]), *(variants or [])]
            document = read_document("", task=task, data=data)
        elif not config:
            raise ValueError("nothing to compare: give a configuration (see seqloom init), or --task and --data")
        try:
            result = comparison.compare(
                document,
                [*(variants or []), *(f"layer={layer}" for layer in layers or [])],
                overrides or [],
                minutes=minutes,
                tokens=tokens,
                seeds=seeds,
                folds=folds,
                match_parameters=match_parameters,
                output=output,
            )
        except Interrupted as interrupted:
            typer.echo(f"stopped and saved; continue with the same command and --output {interrupted}", err=True)
            raise typer.Exit(130) from None
        if as_json:
            terminal.print_json(result.rows)
        else:
            terminal.table(*table.format_table(result.rows))
            plot = f", learning curves to {result.plot}" if result.plot else ""
            terminal.print_lines("")
            for line in (*result.footnotes(), f"Table written to {result.path / 'compare.md'}{plot}"):
                terminal.print_wrapped(line)
        if any(row["errors"] for row in result):
            raise typer.Exit(1)


def sweep(
    config: Annotated[
        str, typer.Argument(help="TOML file with a table [sweep], or the folder of a sweep to continue or join.")
    ] = "",
    overrides: Overrides = None,
    *,
    task: TaskName = "",
    data: DataFiles = "",
    output: Annotated[
        Path | None, typer.Option(help="Folder of the sweep; an existing sweep is continued or joined.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Train with many settings and find the best. Prints the trials and the importance of each key.

    Ctrl-C saves and stops; the same command with --output continues, and further processes may join.
    """
    from seqloom import terminal
    from seqloom.interrupt import Interrupted
    from seqloom.run_document import read_document
    from seqloom.tuning.sweep import sweep as run_sweep

    with errors():
        try:
            if task or data or not config:
                document = read_document(config, overrides or [], task=task, data=data)
                result = run_sweep(document, output=output)
            else:
                result = run_sweep(config, overrides or [], output=output)
        except Interrupted as interrupted:
            typer.echo(f"stopped and saved; continue with: seqloom sweep {interrupted}", err=True)
            raise typer.Exit(130) from None
        if as_json:
            terminal.print_json(json.loads((result.path / "sweep.json").read_text(encoding="utf-8")))
        else:
            columns, rows = result.table()
            terminal.table(columns, rows[:MAX_TRIALS])
            terminal.print_lines(*[f"and {len(rows) - MAX_TRIALS} more trials"] * (len(rows) > MAX_TRIALS), "")
            if result.importance:
                terminal.table(*result.importance_table())
                terminal.print_lines("")
            terminal.print_lines(*result.notes(), f"Tables and plots written to {result.path}")
            if result.best:
                terminal.print_lines(
                    f"Best model:      seqloom info {result.best_run}",
                    f"Train it again:  seqloom train {result.best_config}",
                )
        if result.best is None:
            raise typer.Exit(1)


def lab(
    name: Annotated[
        str, typer.Argument(help="Experiment; omit it to list all.", autocompletion=complete_experiment)
    ] = "",
    overrides: Annotated[
        list[str] | None, typer.Argument(help="Changes to its options, such as seeds=5 or 'lengths=[10,20]'.")
    ] = None,
    *,
    quick: Annotated[
        bool, typer.Option("--quick", help="Measure for a few seconds only, too little to decide anything.")
    ] = False,
    thorough: Annotated[
        bool, typer.Option("--thorough", help="More seeds, sizes and updates; takes up to ten minutes.")
    ] = False,
    options: Annotated[
        bool, typer.Option("--options", help="Print the options of the experiment without running it.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option(help="Folder for the results and the figure; default: a new one, runs/lab-NAME.")
    ] = None,
    theme: Annotated[
        str, typer.Option(metavar="THEME", help="Background of the figure: light (default) or dark.")
    ] = "light",
    as_json: AsJson = False,
) -> None:
    """Test a claim of the literature by an experiment. Prints measurements and a verdict, and draws a figure."""
    from seqloom import terminal
    from seqloom.insight.plotting import check_theme, plot_theme
    from seqloom.lab import runner

    with errors():
        if not name:
            if overrides or quick or thorough or options or output:
                raise ValueError("no experiment is given; seqloom lab lists them")
            described = runner.describe_all()
            if as_json:
                terminal.print_json(described)
            else:
                listed = [(row["name"], row["topic"], row["question"]) for row in described]
                terminal.table(("experiment", "topic", "question"), listed)
            return
        if quick and thorough:
            raise ValueError("--quick and --thorough exclude each other")
        background = check_theme(theme)
        preset: Preset = "quick" if quick else "thorough" if thorough else "default"
        experiment = runner.configure(name, overrides or [], preset=preset)
        if options:
            columns, rows = runner.option_table(name)
            if as_json:
                terminal.print_json([dict(zip(columns, row, strict=True)) for row in rows])
            else:
                terminal.table(columns, rows)
            return
        if not as_json:
            runner.print_claim(name)
        try:
            with runner.results_folder(name, output) as folder:
                result = runner.run(name, experiment, preset=preset)
                with plot_theme(background):
                    paths = runner.write(result, folder)
        except KeyboardInterrupt:
            typer.echo("interrupted; nothing was written", err=True)
            raise typer.Exit(130) from None
        if as_json:
            terminal.print_json(result.to_json())
        else:
            runner.print_result(result, paths)
