"""The rows of a run while they are written: each line of metrics.jsonl is read once."""

from typing import Any

from seqloom.run import Run, RunError


class MetricsFollower:
    """Reads the rows that were added since the last time.

    Resuming a training truncates the file. The last known row is therefore read again: if it is not there any more,
    all rows are.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.rows: list[dict[str, Any]] = []
        self._before, self._after = 0, 0  # positions before and after the last known row

    def read(self) -> int:
        """Read what is new; the index of the first row that may differ from what was known."""
        known = len(self.rows)
        try:
            added = self.run.rows_from(self._before)
        except RunError:  # the file is another one: there is the middle of a line
            added = []
        if known and (not added or added[0] != (self._after, self.rows[-1])):
            known, self.rows, self._before, self._after = 0, [], 0, 0
        added = added[1:] if known else self.run.rows_from(0)
        for position, row in added:
            self.rows.append(row)
            self._before, self._after = self._after, position
        return known
