"""The result of a comparison: its rows, and the table as text, Markdown and HTML."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seqloom import html
from seqloom.comparison import table
from seqloom.terminal import table_lines


@dataclass(frozen=True, repr=False)
class Comparison:
    """The variants of a comparison, one row each, in the order in which they were given.

    ``comparison["base"]`` and ``comparison[0]`` are rows: dictionaries with scores, differences and costs.
    """

    rows: list[dict[str, Any]]
    path: Path  # the folder with all runs, compare.md, compare.json and curves.png
    title: str = ""
    notes: tuple[str, ...] = ()
    plot: Path | None = None  # the learning curves of all runs; None: not drawn

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows)

    def __getitem__(self, key: int | str) -> dict[str, Any]:
        if isinstance(key, int):
            return self.rows[key]
        for row in self.rows:
            if row["variant"] == key:
                return row
        raise KeyError(f"{key!r} is not a variant; variants: {', '.join(row['variant'] for row in self.rows)}")

    @property
    def best(self) -> dict[str, Any]:
        """The row with the best mean score."""
        scored = [row for row in self.rows if row.get("mean") is not None]
        if not scored:
            raise ValueError("no variant has a score")
        return (max if scored[0]["higher_is_better"] else min)(scored, key=lambda row: row["mean"])

    def footnotes(self) -> list[str]:
        """What the columns mean, what was adapted, what failed."""
        return [table.note(self.rows), *table.footnotes(self.rows)]

    def markdown(self) -> str:
        """The table and its notes as a Markdown page."""
        return table.markdown(self.title, self.rows, self.notes)

    def __str__(self) -> str:
        return "\n".join([*table_lines(*table.format_table(self.rows)), "", *self.footnotes()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        columns, lines = table.format_table(self.rows)
        cells = [[html.escape(cell) for cell in line] for line in lines]
        notes = map(html.remark, self.footnotes())
        return html.block(html.table(columns, cells, right=range(1, len(columns))), *notes)
