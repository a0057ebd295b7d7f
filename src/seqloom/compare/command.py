"""The comparison as a command."""

from pathlib import Path
from typing import Annotated

import typer

from seqloom.options import AsJson, Configuration, errors, print_json

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
    tokens: Annotated[
        int, typer.Option(min=0, help="Training budget of each run in items, as the loss counts them.")
    ] = 0,
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each variant, with different random seeds.")] = 1,
    output: Annotated[
        Path | None, typer.Option(help="Folder of the runs and the table; finished runs in it are not repeated.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Train several variants with the same budget and compare them in a table: score, difference, speed, memory.

    The other variants are compared with the first one, example by example.
    """
    from seqloom import terminal
    from seqloom.compare import child, table
    from seqloom.compare.compare import compare as compare_all
    from seqloom.compare.variants import Budget
    from seqloom.interrupt import Interrupted
    from seqloom.workflow import unused_folder

    with errors():
        folder = output or unused_folder(OUTPUT)
        try:
            rows = compare_all(
                Path(config),
                variants,
                output=folder,
                measure=child.measure,
                budget=Budget(minutes, tokens),
                seeds=seeds,
                say=lambda text: typer.echo(text, err=True),
            )
        except Interrupted:
            typer.echo(f"stopped and saved; continue with the same command and --output {folder}", err=True)
            raise typer.Exit(130) from None
        if as_json:
            print_json(rows)
        else:
            terminal.table(*table.cells(rows))
            terminal.say("", table.NOTE, *table.remarks(rows), f"Kept in {folder / 'compare.md'}")
        if any(row["failed"] for row in rows):
            raise typer.Exit(1)
