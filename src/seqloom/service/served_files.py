"""Exported ONNX files as models of a service: without torch."""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import seqloom_runtime
from seqloom.data.readers.media import MediaDecoder
from seqloom.service.served_models import InputError, LoadedModel, ServedModel, check_search_size
from seqloom.service.settings import ServiceSettings
from seqloom.terminal import json_value

if TYPE_CHECKING:
    from seqloom.models.generation import GeneratedToken

TEXTS = ("text", "text_pair", "source", "words")
"""Kinds of inputs that are texts."""


@dataclass(frozen=True)
class LoadedFile(LoadedModel):
    """A file in one version, the beginning of its SHA-256."""

    model: Any  # a model of seqloom_runtime

    @property
    def task_name(self) -> str:
        return str(self.model.task)

    @property
    def reads_text(self) -> bool:
        return self.model.description["input"]["kind"] in TEXTS

    @property
    def reads_pairs(self) -> bool:
        return bool(self.model.description["input"]["kind"] == "text_pair")

    def predict(self, examples: Sequence[Any]) -> list[dict[str, Any]]:
        return list(map(self.to_json, self.model.predict(examples)))

    def to_json(self, answer: Any) -> dict[str, Any]:
        values: dict[str, Any] = json_value(answer)
        return values

    def explain(self, example: Any, *, method: str, target: str, word: str) -> dict[str, Any]:  # noqa: ARG002
        self._refuse("explains nothing")

    def generate_tokens(
        self, prompt: str, *, length: int, lines: int, alternatives: int, seed: int, **options: Any
    ) -> "Iterator[GeneratedToken]":
        if not isinstance(self.model, seqloom_runtime.LanguageModel):
            kinds = {"masked": "masked language model", "both_directions": "language model of both directions"}
            kind = kinds.get(self.model.description["output"]["kind"], f"model of the task {self.task_name}")
            raise TypeError(f"a {kind} does not generate text; language_model does")
        tokens: Any = self.model.generate_tokens(
            prompt, length=length, lines=lines, alternatives=alternatives, seed=seed, **options
        )
        return tokens  # type: ignore[no-any-return]

    def prompt_tokens(self, prompt: str, *, alternatives: int) -> "Iterator[GeneratedToken]":
        tokens: Any = self.model.score_tokens(prompt, alternatives=alternatives)
        return tokens  # type: ignore[no-any-return]

    def count_tokens(self, text: str) -> int:
        return len(self.model.tokenizer.encode(text))

    def require_timings(self) -> None:
        description = self.model.description
        if not description["output"].get("ctc") or description["input"]["kind"] != "sound":
            raise ValueError("this model has no transcripts with times: it needs sound, and CTC")

    def duration(self, example: Any) -> float:
        samples, rate = example
        return len(samples) / int(rate)

    def open_stream(self, lag: float) -> Any:  # noqa: ARG002
        self._refuse("transcribes whole recordings only")

    def _refuse(self, reason: str) -> NoReturn:
        raise TypeError(f"an exported file {reason}: serve the run itself")


class ServedFile(ServedModel[LoadedFile]):
    """A file that is served under a name."""

    def __init__(self, name: str, path: Path, settings: ServiceSettings, *, threads: int = 1, search: str = "") -> None:
        self._threads, self._search = threads, search
        super().__init__(name, path, settings)

    def load(self) -> LoadedFile:
        version = self.newest_version()
        if Path(seqloom_runtime.__file__).resolve().parent != Path(__file__).resolve().parents[2]:
            raise ValueError(
                f"{seqloom_runtime.__file__} is not the seqloom_runtime of this Seqloom: start it from another folder"
            )
        model: Any = seqloom_runtime.load(self.path, threads=self._threads)
        if self._search:
            model.search = _search_settings(model, self._search)
        return LoadedFile(version, datetime.now(UTC), model)

    def newest_version(self) -> str:
        with self.path.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(file.tell() - 64, 0))  # the checksum at the end
            return file.read(12).decode("ascii", "replace")

    def searching(self, search: str) -> LoadedFile:
        model = copy.copy(self.current.model)  # which shares the sessions
        model.search = _search_settings(model, search)
        for name, value in model.search.items():
            check_search_size(name, value)
        return replace(self.current, model=model)

    @property
    def reads_tables(self) -> bool:
        return bool(self.current.model.description["input"]["kind"] == "series")

    def read_text(self, text: str) -> list[Any]:
        return self._checked(text)

    def read_numbers(self, array: Any) -> list[Any]:
        is_sound = self.current.model.description["input"]["kind"] == "sound"
        if is_sound:
            return self._checked(seqloom_runtime.Sound(array, self.current.model.description["input"]["rate"]))
        return self._checked(array)

    def read_table(self, table: dict[str, Sequence[Any]]) -> list[Any]:
        columns = self.current.model.description["input"]["columns"]
        if missing := [name for name in columns if name not in table]:
            raise InputError(f"no column {missing[0]!r}; the model reads {', '.join(map(repr, columns))}")
        lengths = {len(table[name]) for name in columns}
        if len(lengths) > 1:
            raise InputError(f"expected columns of one length, found {sorted(lengths)}")
        if self.current.model.description["input"].get("covariates"):
            return self._checked(table)
        return self._checked([[table[name][row] for name in columns] for row in range(*lengths)])

    def read_path(self, path: Path) -> list[Any]:
        described = self.current.model.description["input"]
        decoder = MediaDecoder(
            image_size=described["size"] if described["kind"] in ("image", "video") else 1,
            resize=described.get("resize", "crop"),
            line_height=described.get("line_height", 0),
        )
        with path.open("rb") as file:
            signal = decoder.decode(file, path.name)
        return self._checked(seqloom_runtime.Sound(signal.values, signal.rate) if signal.rate else signal.values)

    def _checked(self, item: Any) -> list[Any]:
        self.current.model.check(item)
        return [item]


def _search_settings(model: Any, search: str) -> dict[str, Any]:
    if not isinstance(model, seqloom_runtime.Generator):
        raise TypeError(f"a model of the task {model.task} has no search")
    return seqloom_runtime.parse_search(search)
