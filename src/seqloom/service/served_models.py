"""The models of a service: loaded runs, each with a thread that computes, and replaced when a run has a new best."""

import asyncio
import hashlib
import logging
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from seqloom import files
from seqloom.data.readers.media import SUFFIXES as MEDIA
from seqloom.data.readers.text_files import DataError
from seqloom.decoding.searches import parse_search
from seqloom.model import Model
from seqloom.service.settings import ServiceSettings
from seqloom.service.worker import Worker
from seqloom.terminal import json_value

logger = logging.getLogger("seqloom.service")

Load = Callable[[Path], Model]
MAX_SEARCH_SIZE = 100  # of what a client may ask of a search: beam size, n-best, samples
KEPT_SEARCHES = 16


class InputError(ValueError):
    """An input that the model cannot read; the message is for the client."""


@dataclass(frozen=True)
class LoadedModel:
    """A model at one checkpoint."""

    model: Model
    version: str  # of the weights: the beginning of the SHA-256 of their manifest
    loaded: datetime

    def predict(self, examples: Sequence[Any]) -> list[dict[str, Any]]:
        """The predictions as JSON shows them; runs in the thread of the worker."""
        (answers,) = self.model.predict_batches(examples, batch_size=len(examples)) if examples else ([],)
        return [json_value(self.model.task.to_json(answer)) for answer in answers]


class ServedModel:
    """A run that is served under a name."""

    def __init__(self, name: str, path: Path, load: Load, settings: ServiceSettings) -> None:
        self.name, self.path, self.settings = name, path, settings
        self._load = load
        self.current = self._load_current()
        self.worker = Worker(max_batch=settings.max_batch, max_wait=settings.max_wait, max_queue=settings.max_queue)
        self._searches: dict[str, LoadedModel] = {}

    @property
    def model(self) -> Model:
        return self.current.model

    def _load_current(self) -> LoadedModel:
        return LoadedModel(self._load(self.path), _version(self.path), datetime.now(UTC))

    async def reload_if_changed(self) -> bool:
        """Load the best checkpoint if it is a new one; one that cannot be loaded leaves the model as it is."""
        if _version(self.path) == self.current.version:
            return False
        try:
            self.current = await asyncio.get_running_loop().run_in_executor(None, self._load_current)
        except (ValueError, OSError) as error:
            logger.warning("%s: the new checkpoint cannot be loaded, the one before stays: %s", self.name, error)
            return False
        self._searches.clear()
        logger.info("%s: loaded version %s", self.name, self.current.version)
        return True

    def with_search(self, search: str) -> LoadedModel:
        """The model with another search, such as "beam size=5 nbest=3"; InputError if there is no such search."""
        if not search:
            return self.current
        if search not in self._searches:
            if len(self._searches) == KEPT_SEARCHES:
                self._searches.pop(next(iter(self._searches)))
            self._searches[search] = replace(self.current, model=self._searching(search))
        return self._searches[search]

    def _searching(self, search: str) -> Model:
        try:
            parsed = parse_search(search)
            for name, value in parsed.model_dump().items():
                if isinstance(value, int) and value > MAX_SEARCH_SIZE and name in ("size", "nbest", "count"):
                    raise InputError(f"search: {name} is limited to {MAX_SEARCH_SIZE}, got {value}")
            return self.model.with_search(parsed)
        except (ValueError, TypeError) as error:
            raise InputError(str(error)) from None

    async def predict(self, examples: Sequence[Any], *, search: str = "") -> list[dict[str, Any]]:
        """The predictions for examples as JSON shows them."""
        return await self.worker.predict(self.with_search(search).predict, examples)

    def read(self, inputs: Sequence[Any]) -> list[Any]:
        """The examples of inputs in JSON: texts, lists of numbers, or tables as dicts of columns."""
        examples: list[Any] = []
        for number, value in enumerate(inputs):
            source = self._source(value, f"inputs[{number}]")
            examples += self._read(partial(self.model.read, source), f"inputs[{number}]")
        return examples

    def read_file(self, content: bytes, name: str) -> list[Any]:
        """The examples of an uploaded file of sound, images, video or features."""
        if self.model.task.reads_text:
            raise InputError(f"the model {self.name} reads texts, not files: send them as JSON")
        suffix = PurePath(name).suffix.lower()
        if suffix not in MEDIA:
            raise InputError(f"{name}: expected a file of sound, images or features ({', '.join(MEDIA)})")
        with tempfile.TemporaryDirectory(prefix="seqloom-") as folder:  # private to this user
            path = Path(folder) / _plain_name(name)
            files.write(path, content)
            return self._read(partial(self.model.read, path), path.name, folder=f"{folder}/")

    def _read(self, read: Callable[[], Any], name: str, *, folder: str = "") -> list[Any]:
        try:
            examples = list(read())
        except DataError as error:
            message = error.message.replace(folder, "") if folder else error.message
            raise InputError(f"{name}: {message}") from None
        except (ValueError, TypeError) as error:
            raise InputError(f"{name}: {error}") from None
        if len(examples) != 1:
            raise InputError(f"{name}: expected one sequence, found {len(examples)}")
        return examples

    def _source(self, value: Any, name: str) -> Any:
        """An input in JSON as a source that names no file of this machine."""
        task, limit = self.model.task, self.settings.max_length
        if isinstance(value, str):
            if not task.reads_text:  # it would be the name of a file
                raise InputError(f"{name}: the model {self.name} reads {self.kind}, found a text")
            if len(value) > limit:
                raise InputError(f"{name}: limited to {limit:,} characters, found {len(value):,}")
            return [value]
        if isinstance(value, Mapping):
            if task.data_files or task.reads_text:  # a column may hold names of files
                raise InputError(f"{name}: expected {self.kind}, found an object")
            if sum(map(len, value.values())) > limit:
                raise InputError(f"{name}: limited to {limit:,} values")
            return dict(value)
        if task.reads_text:
            raise InputError(f"{name}: expected a text, found {type(value).__name__}")
        try:
            array = np.asarray(value, dtype=np.float64)
        except (ValueError, TypeError):
            raise InputError(f"{name}: expected rows of equally many numbers") from None
        if array.size > limit:
            raise InputError(f"{name}: limited to {limit:,} numbers, found {array.size:,}")
        return array if task.sequential else [array]

    @property
    def kind(self) -> str:
        """What the model reads, in words."""
        return "files or lists of numbers" if not self.model.task.reads_text else "texts"

    def describe(self) -> dict[str, Any]:
        """What ``GET /v1/models`` says about the model."""
        task = self.model.task
        return {
            "id": self.name,
            "object": "model",
            "created": int(self.current.loaded.timestamp()),
            "owned_by": "seqloom",
            "task": task.name,
            "version": self.current.version,
            "reads": self.kind,
        }


class ModelStore:
    """All models of a service by name."""

    def __init__(self, models: Sequence[ServedModel]) -> None:
        self.models = {model.name: model for model in models}

    def find(self, name: str) -> ServedModel | None:
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


def model_names(paths: Sequence[Path]) -> list[str]:
    """A name for each run: that of its folder; with the folder above it where names are equal."""
    from seqloom.run import Run

    names = [Run.open(path).name for path in paths]
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


def _version(path: Path) -> str:
    """The beginning of the SHA-256 of the manifest of the checkpoint that is served."""
    for name in ("best", "last"):
        manifest = path / name / "manifest.json"
        try:
            return hashlib.sha256(manifest.read_bytes()).hexdigest()[:12]
        except OSError:
            continue
    return ""
