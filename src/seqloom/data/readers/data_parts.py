"""The files of a folder that are parts of one data set, such as train.txt, dev.txt and test.txt, by their names."""

import re
from collections.abc import Iterable
from pathlib import Path

TRAIN = re.compile("train")
DEV = re.compile(r"(?<![a-z])(dev(el|elopment|set)?|val(id|idation)?)(?![a-z])")  # not values, device
_TEST = re.compile(r"(?<![a-z])test(set)?(?![a-z])")
_ONLY_TRAIN = re.compile(r"(.*[^a-z])?train(ing)?([^a-z]?(set|data))?")  # not training_day


def are_parts(files: Iterable[Path]) -> bool:
    """Whether files are the parts of a data set, and not texts that belong together."""
    stems = [path.stem.lower() for path in files]
    if any(_ONLY_TRAIN.fullmatch(stem) for stem in stems):
        return True
    return any(map(TRAIN.search, stems)) and any(DEV.search(stem) or _TEST.search(stem) for stem in stems)
