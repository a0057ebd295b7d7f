"""What is done with training examples that are longer than a limit; counted, with the place of the first."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

from seqloom.data.readers.text_files import DataError
from seqloom.data.split import Read

TooLong = Literal["truncate", "split", "skip"]
"""Keep the beginning, cut into several examples, or leave out."""
DONE: dict[TooLong, str] = {"truncate": "truncated", "split": "split", "skip": "skipped"}


class LengthLimit:
    """Shortens or skips long examples, and counts them in each pass over the data."""

    def __init__(
        self,
        length: int,
        action: TooLong,
        *,
        measure: Callable[[Any], int],
        shorten: Callable[[Any, int, TooLong], Iterable[Any]],  # the parts of a long example
    ) -> None:
        self.length, self.action, self.measure, self.shorten = length, action, measure, shorten
        self.first: Any = None  # place of the first long example
        self.long = self.total = 0  # examples

    def limit(self, read: Read) -> Read:
        """A reader of the examples of ``read`` within the limit."""
        return lambda: self._limited(read())

    def _limited(self, examples: Iterable[Any]) -> Iterator[Any]:
        self.first, self.long, self.total = None, 0, 0
        for example in examples:
            self.total += 1
            if self.measure(example) <= self.length:
                yield example
                continue
            self.first, self.long = self.first or example.location, self.long + 1
            if self.action != "skip":
                yield from self.shorten(example, self.length, self.action)
        if self.action == "skip" and self.long == self.total > 0:
            raise DataError(
                self.first, f"all {self.total:,} examples are longer than {self.length:,} (train.max_length)"
            )

    def note(self) -> str:
        """What happened in the last pass; empty: no example was too long."""
        if not self.long:
            return ""
        are = "is" if self.long == 1 else "are"
        return (
            f"{self.first}: {self.long:,} of {self.total:,} training examples {are} longer than {self.length:,} "
            f"(train.max_length) and {DONE[self.action]}"
        )
