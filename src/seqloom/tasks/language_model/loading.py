"""The language model of a run, for the search of another task."""

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from seqloom.config import parse
from seqloom.models.transcription.search_guide import LoadedLanguageModel
from seqloom.run import Run
from seqloom.tasks.language_model.language_model import LanguageModel


def load_language_model(path: Path) -> LoadedLanguageModel:
    """Load the language model of a run for the search of another task."""
    run = Run.open(path)
    document = parse(run.config, str(run.path / "config.toml"))
    if (name := document.get("task.name")) != "language_model":
        raise TypeError(f"{path}: is a run of the task {name}, expected a language_model")
    built = replace(document, values={"task": document.values["task"]}).build(task=LanguageModel)
    task = cast(LanguageModel, built["task"]).with_learned(run)
    if task.objective == "masked":
        raise TypeError(
            f"{path}: is a masked language model, which gives no probability of the next token; expected one with "
            'task.objective = "causal"'
        )
    module: Any = task.load_model(run.load_best().model, run.path)
    return LoadedLanguageModel(task.tokenizer, module.eval())
