"""Channels of vectors by name: a file may list them in another order, but has to have the same ones."""

from collections.abc import Sequence

import numpy as np

from seqloom.data.readers.text_files import DataError, Location
from seqloom.data.readers.vectors import Values

SHOWN = 8  # names in a message


def match_channels(
    location: Location,
    values: Values,  # (T, D)
    names: Sequence[str],  # of the channels; empty: unknown
    expected: Sequence[str],  # names in the order of the training data; empty: unknown
) -> Values:
    """The values with the channels in the expected order: by name, or by position where there are no names."""
    if not names or not expected or tuple(names) == tuple(expected):
        return values
    present, known = set(names), set(expected)
    missing = [name for name in expected if name not in present]
    unknown = [name for name in names if name not in known]
    if missing or unknown:
        problems = [
            f"{problem} {'channel' if len(listed) == 1 else 'channels'}: {_list(listed)}"
            for problem, listed in (("missing", missing), ("unknown", unknown))
            if listed
        ]
        trained = f"the training data have {_list(expected)}"
        remedy = "rename the columns" if missing else "remove the columns that they do not have"
        raise DataError(location.file, f"{'; '.join(problems)}; {trained}: {remedy}")
    positions = {name: index for index, name in reversed(list(enumerate(names)))}
    matched: Values = values[:, np.array([positions[name] for name in expected])]
    return matched


def _list(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else "")
