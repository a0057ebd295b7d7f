"""Errors in the code of a user's cell or layer, as a sentence with the file and the line."""

import traceback
from pathlib import Path

import torch

LIBRARIES = (str(Path(__file__).parents[1]), str(Path(torch.__file__).parent))
"""Folders whose code is not the user's."""


class LayerError(ValueError):
    """A custom layer or cell does not do what is expected of it."""


def layer_name(layer: object) -> str:
    """The name of a custom layer, for messages."""
    return str(getattr(layer, "__qualname__", type(layer).__qualname__)).rpartition("<locals>.")[2]


def user_place(error: BaseException) -> str:
    """File and line of the last line of the user's code that led to an error; empty: there is none."""
    frames = traceback.extract_tb(error.__traceback__)
    places = [frame for frame in frames if not frame.filename.startswith((*LIBRARIES, "<"))]
    return f"{Path(places[-1].filename).name}:{places[-1].lineno}" if places else ""


def describe_error(error: BaseException) -> str:
    """The kind of an error, the first line of its message, and the last line of the user's code that led to it."""
    place = user_place(error)
    message = (str(error).strip().splitlines() or [""])[0]
    kind = f"{type(error).__name__}: {message}" if message else type(error).__name__
    return f"{kind} ({place})" if place else kind
