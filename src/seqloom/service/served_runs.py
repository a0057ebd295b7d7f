"""Training runs as models of a service."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from seqloom.answers import EMPTY_INPUT, with_warning
from seqloom.data.readers import midi
from seqloom.decoding.searches import parse_search
from seqloom.decoding.tokens.sample import Sample
from seqloom.model import Model
from seqloom.models.generation import GeneratedToken, GivenTokens, text_tokens
from seqloom.run import Run
from seqloom.service.served_models import LoadedModel, ServedModel, check_search_size
from seqloom.service.settings import ServiceSettings
from seqloom.terminal import json_value

Load = Callable[[Path], Model]


@dataclass(frozen=True)
class LoadedRun(LoadedModel):
    """A run at one checkpoint; its version is the beginning of the SHA-256 of the manifest of its weights."""

    model: Model

    @property
    def task_name(self) -> str:
        return str(self.model.task.name)

    @property
    def reads_text(self) -> bool:
        return self.model.task.reads_text

    @property
    def reads_pairs(self) -> bool:
        return self.model.task.reads_pairs

    def predict(self, examples: Sequence[Any]) -> list[dict[str, Any]]:
        (answers,) = self.model.predict_batches(examples, batch_size=len(examples)) if examples else ([],)
        return [
            with_warning(self.to_json(answer), self._warning(example))
            for answer, example in zip(answers, examples, strict=True)
        ]

    def _warning(self, example: Any) -> str:
        task = self.model.task
        return EMPTY_INPUT if task.is_empty_input(example) else task.input_warning(example)

    def to_json(self, answer: Any) -> dict[str, Any]:
        values: dict[str, Any] = json_value(self.model.task.to_json(answer))
        return values

    def explain(self, example: Any, *, method: str, target: str, word: str) -> dict[str, Any]:
        explanation = self.model.explain(example, method=method, target=target, word=word)
        values: dict[str, Any] = json_value(explanation.to_dict())
        return values

    def generate_tokens(
        self, prompt: str, *, length: int, lines: int, alternatives: int, seed: int, **options: Any
    ) -> Iterator[GeneratedToken]:
        sample = Sample(seed=seed, **options)
        return self.model.generate_tokens(prompt, length=length, lines=lines, sample=sample, alternatives=alternatives)

    def prompt_tokens(self, prompt: str, *, alternatives: int) -> Iterator[GeneratedToken]:
        task: Any = self.model.task
        given = GivenTokens(tokens=text_tokens(task.tokenizer, prompt))
        return self.model.generate_tokens("", length=0, lines=0, sample=given, alternatives=alternatives)

    def count_tokens(self, text: str) -> int:
        return sum(len(self.model.task.input_tokens(example)) - 1 for example in self.model.read([text]))  # no start

    def require_timings(self) -> None:
        self.model.task.require_timings()

    def duration(self, example: Any) -> float:
        return self.model.task.input_length(example)

    def open_stream(self, lag: float) -> Any:
        return self.model.open_stream(lag=lag)


class ServedRun(ServedModel[LoadedRun]):
    """A run that is served under a name."""

    def __init__(self, name: str, path: Path, load: Load, settings: ServiceSettings) -> None:
        self._load = load
        super().__init__(name, path, settings)

    @property
    def model(self) -> Model:
        return self.current.model

    def load(self) -> LoadedRun:
        return LoadedRun(self.newest_version(), datetime.now(UTC), self._load(self.path))

    def newest_version(self) -> str:
        for name in ("best", "last"):
            manifest = self.path / name / "manifest.json"
            try:
                return hashlib.sha256(manifest.read_bytes()).hexdigest()[:12]
            except OSError:
                continue
        return ""

    def searching(self, search: str) -> LoadedRun:
        parsed = parse_search(search)
        for name, value in parsed.model_dump().items():
            check_search_size(name, value)
        return replace(self.current, model=self.model.with_search(parsed))

    @property
    def reads_tables(self) -> bool:
        return not self.model.task.data_files  # otherwise a column may hold names of files

    def read_text(self, text: str) -> list[Any]:
        return list(self.model.read([text]))

    def read_numbers(self, array: Any) -> list[Any]:
        return list(self.model.read(array if self.model.task.sequential else [array]))

    def read_table(self, table: dict[str, Sequence[Any]]) -> list[Any]:
        return list(self.model.read(table))

    @property
    def file_kind(self) -> tuple[str, tuple[str, ...]]:
        return ("a MIDI file", midi.SUFFIXES) if self.model.task.generates == "music" else super().file_kind

    def read_path(self, path: Path) -> list[Any]:
        task: Any = self.model.task
        if task.generates == "music":  # decoded here: a configured format could take it for a list of other files
            song = midi.parse_midi(path.read_bytes())
            return list(self.model.read([midi.to_frames(song, task.frames_per_beat)]))
        return list(self.model.read(path))


def run_name(path: Path) -> str:
    """The name of a run; an error if the folder is none."""
    return Run.open(path).name
