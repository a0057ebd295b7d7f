"""The comparison as a command."""

from pathlib import Path
from typing import Annotated

import typer

from seqloom.options import AsJson, Configuration, errors, print_json

OUTPUT = Path("runs/compare")


def compare(
    config: Configuration,
    variants: Annotated[
        list[str], typer.Argument(help="Each a list of changes joined by commas, a .toml file, or base: unchanged.")
    ],
    *,
    minutes: Annotated[float, typer.Option(min=0, help="Budget of each training; the schedule ends there.")] = 0.0,
    tokens: Annotated[int, typer.Option(min=0, help="Or in items, as the loss counts them.")] = 0,
    seeds: Annotated[int, typer.Option(min=1, help="Trainings of each variant.")] = 1,
    output: Annotated[
        Path | None, typer.Option(help="Folder of the runs and the table; what is finished there is not done again.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Train several variants at equal budget, and show them in one table: score, difference, speed, memory.

    The first variant is what the others are compared with, example by example.
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
            typer.echo(f"stopped and saved; go on with the same command and --output {folder}", err=True)
            raise typer.Exit(130) from None
        if as_json:
            print_json(rows)
        else:
            terminal.table(*table.cells(rows))
            terminal.say("", table.NOTE, *table.remarks(rows), f"Kept in {folder / 'compare.md'}")
        if any(row["failed"] for row in rows):
            raise typer.Exit(1)
