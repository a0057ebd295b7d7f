"""``seqloom compare``."""

from pathlib import Path
from typing import Annotated

import typer

from seqloom.cli.options import AsJson, Configuration, errors

OUTPUT = Path("runs/compare")


def compare(
    config: Configuration,
    variants: Annotated[
        list[str], typer.Argument(help="Variants: comma-separated changes, a .toml file, or base (no changes).")
    ],
    *,
    minutes: Annotated[
        float, typer.Option(min=0, help="Training budget of each run in minutes; the schedule ends there.")
    ] = 0.0,
    tokens: Annotated[int, typer.Option(min=0, help="Training budget of each run in tokens (items of the loss).")] = 0,
    seeds: Annotated[int, typer.Option(min=1, help="Runs per variant, each with another random seed.")] = 1,
    output: Annotated[
        Path | None, typer.Option(help="Folder of the runs and the table; finished runs in it are not repeated.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Train variants with the same budget and compare them. Prints scores, speed and memory in a table.

    Each variant is compared with the first one, example by example.
    """
    from seqloom import terminal
    from seqloom.compare import subprocess_trial, table
    from seqloom.compare.compare import compare as compare_variants
    from seqloom.compare.variants import Budget
    from seqloom.interrupt import Interrupted
    from seqloom.workflow import unused_folder

    with errors():
        folder = output or unused_folder(OUTPUT)
        try:
            rows = compare_variants(
                Path(config),
                variants,
                output=folder,
                run_trial=subprocess_trial.run_trial_in_subprocess,
                budget=Budget(minutes, tokens),
                seeds=seeds,
                report=lambda text: typer.echo(text, err=True),
            )
        except Interrupted:
            typer.echo(f"stopped and saved; continue with the same command and --output {folder}", err=True)
            raise typer.Exit(130) from None
        if as_json:
            terminal.print_json(rows)
        else:
            terminal.table(*table.format_table(rows))
            terminal.print_lines("", table.NOTE, *table.footnotes(rows), f"Table written to {folder / 'compare.md'}")
        if any(row["errors"] for row in rows):
            raise typer.Exit(1)
