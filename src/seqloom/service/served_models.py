"""The models of a service: each has a name, a thread that computes, and is replaced when there is a newer one."""

import asyncio
import logging
import re
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from seqloom import files
from seqloom.data.readers.media import SUFFIXES as MEDIA
from seqloom.data.readers.text_files import DataError
from seqloom.data.timed_text import Timed, TimedText
from seqloom.service.settings import ServiceSettings
from seqloom.service.worker import Worker

if TYPE_CHECKING:
    from seqloom.models.generation import GeneratedToken

logger = logging.getLogger("seqloom.service")

MAX_SEARCH_SIZE = 100  # of what a client may ask of a search: beam size, n-best, samples
KEPT_SEARCHES = 16


class InputError(ValueError):
    """An input that the model cannot read; the message is for the client."""


@dataclass(frozen=True)
class LoadedModel(ABC):
    """A model in one version."""

    version: str  # of the weights: the beginning of a SHA-256
    loaded: datetime

    @property
    @abstractmethod
    def task_name(self) -> str:
        """The name of the task."""

    @property
    @abstractmethod
    def reads_text(self) -> bool:
        """Whether an input is a text."""

    @property
    @abstractmethod
    def reads_pairs(self) -> bool:
        """Whether an input is a pair of texts."""

    @abstractmethod
    def predict(self, examples: Sequence[Any]) -> list[dict[str, Any]]:
        """The predictions as JSON shows them; runs in the thread of the worker."""

    @abstractmethod
    def explain(self, example: Any, *, method: str, target: str, word: str) -> dict[str, Any]:
        """A prediction and what led to it; runs in the thread of the worker."""

    @abstractmethod
    def generate_tokens(
        self, prompt: str, *, length: int, lines: int, alternatives: int, seed: int, **options: float
    ) -> "Iterator[GeneratedToken]":
        """Sample a continuation of this many lines (0: up to the length); options are those of sampling.

        TypeError unless it is a language model.
        """

    @abstractmethod
    def prompt_tokens(self, prompt: str, *, alternatives: int) -> "Iterator[GeneratedToken]":
        """The tokens of a prompt with their log-probabilities, for a model that generates text."""

    @abstractmethod
    def count_tokens(self, text: str) -> int:
        """The number of tokens of a prompt."""

    @abstractmethod
    def require_timings(self) -> None:
        """Raise ValueError unless transcripts have times in seconds."""

    @abstractmethod
    def duration(self, example: Any) -> float:
        """The seconds of a recording."""

    @abstractmethod
    def open_stream(self, lag: float) -> Any:
        """Start a live transcription; TypeError if the model cannot."""

    @abstractmethod
    def to_json(self, answer: Any) -> dict[str, Any]:
        """An answer of a live transcription as JSON shows it."""

    def timed_text(self, prediction: Mapping[str, Any], example: Any, *, name: str) -> TimedText:
        """A transcript with times, for subtitles."""
        words, tokens = (
            [Timed(text, *span) for text, span in zip(prediction[names], prediction[times], strict=True)]
            for names, times in (("words", "word_times"), ("tokens", "times"))
        )
        return TimedText.within(self.duration(example), words, tokens, name=name)


Loaded = TypeVar("Loaded", bound=LoadedModel)


class ServedModel(ABC, Generic[Loaded]):
    """A model that is served under a name."""

    def __init__(self, name: str, path: Path, settings: ServiceSettings) -> None:
        self.name, self.path, self.settings = name, path, settings
        self.current = self.load()
        self.worker = Worker(max_batch=settings.max_batch, max_wait=settings.max_wait, max_queue=settings.max_queue)
        self._searches: dict[str, Loaded] = {}

    @abstractmethod
    def load(self) -> Loaded:
        """The newest version."""

    @abstractmethod
    def newest_version(self) -> str:
        """What ``version`` would be if the model were loaded now."""

    @abstractmethod
    def searching(self, search: str) -> Loaded:
        """The model with another search; InputError if there is no such search, or ValueError, or TypeError."""

    @abstractmethod
    def read_numbers(self, array: "np.ndarray[Any, Any]") -> list[Any]:
        """The examples of an array."""

    @abstractmethod
    def read_table(self, table: dict[str, Sequence[Any]]) -> list[Any]:
        """The examples of a table by columns; InputError if the model reads no tables."""

    @abstractmethod
    def read_text(self, text: str) -> list[Any]:
        """The examples of a text."""

    @abstractmethod
    def read_path(self, path: Path) -> list[Any]:
        """The examples of a file of sound, images, video or features."""

    async def reload_if_changed(self) -> bool:
        """Load the newest version if there is one; one that cannot be loaded leaves the model as it is."""
        if self.newest_version() == self.current.version:
            return False
        try:
            self.current = await asyncio.get_running_loop().run_in_executor(None, self.load)
        except (ValueError, OSError) as error:
            logger.warning("%s: the new checkpoint cannot be loaded, the one before stays: %s", self.name, error)
            return False
        self._searches.clear()
        logger.info("%s: loaded version %s", self.name, self.current.version)
        return True

    def with_search(self, search: str) -> Loaded:
        """The model with another search, such as "beam size=5 nbest=3"; InputError if there is no such search."""
        if not search:
            return self.current
        if search not in self._searches:
            if len(self._searches) == KEPT_SEARCHES:
                self._searches.pop(next(iter(self._searches)))
            try:
                self._searches[search] = self.searching(search)
            except (ValueError, TypeError) as error:
                raise InputError(str(error)) from None
        return self._searches[search]

    async def predict(self, examples: Sequence[Any], *, search: str = "") -> list[dict[str, Any]]:
        """The predictions for examples as JSON shows them."""
        return await self.worker.predict(self.with_search(search).predict, examples)

    def read(self, inputs: Sequence[Any]) -> list[Any]:
        """The examples of inputs in JSON: texts, lists of numbers, or tables as dicts of columns."""
        examples: list[Any] = []
        for number, value in enumerate(inputs):
            name = f"inputs[{number}]"
            examples += self._one(self._reading(value, name), name)
        return examples

    @property
    def file_kind(self) -> tuple[str, tuple[str, ...]]:
        """What uploaded files are, and how their names end."""
        return "a file of sound, images or features", tuple(MEDIA)

    def read_file(self, content: bytes, name: str) -> list[Any]:
        """The examples of an uploaded file."""
        if self.current.reads_text:
            raise InputError(f"the model {self.name} reads texts, not files: send them as JSON")
        suffix = PurePath(name).suffix.lower()
        kind, suffixes = self.file_kind
        if suffix not in suffixes:
            raise InputError(f"{name}: expected {kind} ({', '.join(suffixes)})")
        with tempfile.TemporaryDirectory(prefix="seqloom-") as folder:  # private to this user
            path = Path(folder) / _plain_name(name)
            files.write(path, content)
            return self._one(partial(self.read_path, path), path.name, folder=f"{folder}/")

    def _one(self, read: Callable[[], list[Any]], name: str, *, folder: str = "") -> list[Any]:
        try:
            examples = read()
        except InputError:
            raise
        except (ValueError, TypeError) as error:
            message = error.message if isinstance(error, DataError) else str(error)
            raise InputError(f"{name}: {message.replace(folder, '') if folder else message}") from None
        if len(examples) != 1:
            raise InputError(f"{name}: expected one sequence, found {len(examples)}")
        return examples

    def _reading(self, value: Any, name: str) -> Callable[[], list[Any]]:
        """What reads an input in JSON, which names no file of this machine."""
        reads_text, limit = self.current.reads_text, self.settings.max_length
        if isinstance(value, str):
            if not reads_text:  # it would be the name of a file
                raise InputError(f"{name}: the model {self.name} reads {self.kind}, found a text")
            if len(value) > limit:
                raise InputError(f"{name}: limited to {limit:,} characters, found {len(value):,}")
            return partial(self.read_text, value)
        if isinstance(value, Mapping):
            if reads_text or not self.reads_tables:
                raise InputError(f"{name}: expected {self.kind}, found an object")
            if other := next((column for column in value if not isinstance(value[column], list)), None):
                raise InputError(f"{name}: column {other!r}: expected a list, found {type(value[other]).__name__}")
            if sum(map(len, value.values())) > limit:
                raise InputError(f"{name}: limited to {limit:,} values")
            return partial(self.read_table, dict(value))
        if reads_text:
            if self.current.reads_pairs and len(value) == 2 and all(isinstance(text, str) for text in value):
                return self._reading("\t".join(text.replace("\t", " ") for text in value), name)
            expected = "a pair of texts" if self.current.reads_pairs else "a text"
            raise InputError(f"{name}: expected {expected}, found {type(value).__name__}")
        try:
            array = np.asarray(value, dtype=np.float64)
        except (ValueError, TypeError, OverflowError):
            raise InputError(f"{name}: expected rows of equally many numbers") from None
        if array.size > limit:
            raise InputError(f"{name}: limited to {limit:,} numbers, found {array.size:,}")
        return partial(self.read_numbers, array)

    @property
    @abstractmethod
    def reads_tables(self) -> bool:
        """Whether an input may be a table by columns, which must not hold names of files."""

    @property
    def kind(self) -> str:
        """What the model reads, in words."""
        if self.current.reads_pairs:
            return "pairs of texts: [first, second]"
        return "texts" if self.current.reads_text else "files or lists of numbers"

    def describe(self) -> dict[str, Any]:
        """What ``GET /v1/models`` says about the model."""
        return {
            "id": self.name,
            "object": "model",
            "created": int(self.current.loaded.timestamp()),
            "owned_by": "seqloom",
            "task": self.current.task_name,
            "version": self.current.version,
            "reads": self.kind,
        }


def check_search_size(name: str, value: Any) -> None:
    """Raise InputError for a search that would take too long."""
    if isinstance(value, int) and value > MAX_SEARCH_SIZE and name in ("size", "nbest", "count"):
        raise InputError(f"search: {name} is limited to {MAX_SEARCH_SIZE}, got {value}")


class ModelStore:
    """All models of a service by name."""

    def __init__(self, models: Sequence[ServedModel[Any]]) -> None:
        self.models = {model.name: model for model in models}

    def find(self, name: str) -> ServedModel[Any] | None:
        """A model by its name; the only one if the name is empty."""
        if not name and len(self.models) == 1:
            return next(iter(self.models.values()))
        return self.models.get(name)

    async def run(self, *, reload_seconds: float) -> None:
        """Compute for all models, and reload them, until the task is cancelled."""
        async with asyncio.TaskGroup() as group:
            for model in self.models.values():
                group.create_task(model.worker.run())
            while reload_seconds:
                await asyncio.sleep(reload_seconds)
                for model in self.models.values():
                    await model.reload_if_changed()


def unique_names(paths: Sequence[Path], names: Sequence[str]) -> list[str]:
    """A name for each run or file: its own; with the folder above it where names are equal."""
    repeated = {name for name in names if names.count(name) > 1}
    pairs = zip(paths, names, strict=True)
    full = [f"{path.resolve().parent.name}-{name}" if name in repeated else name for path, name in pairs]
    if len(set(full)) < len(full):
        twice = next(name for name in full if full.count(name) > 1)
        raise ValueError(f"two runs have the name {twice}: rename a folder, since clients choose a model by its name")
    return full


def _plain_name(name: str) -> str:
    """The name of an uploaded file without folders and characters that mean something to a system."""
    return re.sub(r"[^\w.-]", "_", PurePath(name.replace("\\", "/")).name)[-100:].lstrip(".")
