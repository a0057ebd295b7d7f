"""The decoding methods of a model with their settings, for controls on the page Try."""

from typing import Any, Literal, get_args, get_origin

from seqloom.decoding.frames.frame_search import FrameSearch
from seqloom.decoding.searches import SEARCHES
from seqloom.tasks.task import Task


def describe_searches(task: Task) -> list[dict[str, Any]]:
    """What can be chosen: each method with the settings that are numbers or one of a few words."""
    if not task.uses_search:
        return []
    kinds = set(get_args(type(task).model_fields["search"].annotation))
    model = getattr(task, "model", "")  # of a transcriber
    decodes = {"ctc": (True,), "attention": (False,)}.get(model, (True, False))
    return [
        {"name": name, "about": (kind.__doc__ or "").partition("\n")[0], "settings": _settings(kind)}
        for name, kind in SEARCHES.items()
        if kind in kinds and issubclass(kind, FrameSearch) in decodes
    ]


def _settings(kind: Any) -> list[dict[str, Any]]:
    settings = []
    for name, field in kind.model_fields.items():
        is_choice = get_origin(field.annotation) is Literal
        if name == "name" or not (is_choice or field.annotation in (int, float)):
            continue
        choices = list(get_args(field.annotation)) if is_choice else []
        settings.append({"name": name, "default": field.default, "about": field.description or "", "choices": choices})
    return settings
