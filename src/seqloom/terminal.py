"""What a person sees: tables and a progress bar on a terminal, plain lines when piped."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table to standard output: ruled on a terminal, aligned columns when piped. Numbers stand on the right."""
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table

        drawn = Table(*columns)
        for index, column in enumerate(drawn.columns):
            column.justify = "right" if _numeric(row[index] for row in rows) else "left"
        for row in rows:
            drawn.add_row(*row)
        Console().print(drawn, markup=False)
        return
    widths = [max(len(row[index]) for row in (columns, *rows)) for index in range(len(columns))]
    for row in (columns, *rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


@contextmanager
def progress(total: int) -> Iterator[Callable[[str], None]]:
    """A function to call at the beginning of each of ``total`` pieces of work, with its name.

    Shows a bar on a terminal and a line for each piece otherwise, on standard error: standard output is for results.
    """
    if not sys.stderr.isatty():
        yield lambda name: print(name, file=sys.stderr, flush=True)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        begun = 0

        def begin(name: str) -> None:
            nonlocal begun
            bar.update(task, description=name, completed=begun)
            begun += 1

        yield begin


def _numeric(cells: Iterator[str]) -> bool:
    try:
        return bool([float(cell.rstrip("%×")) for cell in cells])
    except ValueError:
        return False
