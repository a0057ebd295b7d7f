"""Two files in a folder, of words and of their labels, line by line."""

import json
import shlex
from contextlib import suppress
from itertools import combinations, islice
from pathlib import Path

from seqloom.data.readers.text_files import lines

COMPARED_LINES = 500


def describe_parallel_files(folder: Path) -> str:
    """How to train on two files of a folder that have as many words in each line; empty if there are none."""
    words: dict[Path, list[list[str]]] = {}
    for path in sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith(".")):
        with suppress(ValueError, OSError):  # it is not text
            words[path] = [line.split() for _, line in islice(lines(path), COMPARED_LINES)]
    for pair in combinations(words, 2):
        first, second = (list(map(len, words[path])) for path in pair)
        if first == second and sum(first) > len(first):
            inputs, labels = sorted(pair, key=lambda path: -len({word for row in words[path] for word in row}))
            setting = shlex.quote(f"task.parallel={json.dumps([inputs.name, labels.name])}")
            return (
                f"; {inputs.name} and {labels.name} have as many words in each line; if the second has the labels of "
                f"the first: seqloom train --task tag --data {shlex.quote(str(inputs))} {setting}"
            )
    return ""
