"""The configuration of a run: from a TOML file, from a task and its data, or from the run itself."""

import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from seqloom import config as configuration
from seqloom import tasks
from seqloom.config import ConfigError, Document
from seqloom.config.template import PLACEHOLDER
from seqloom.data.readers.text_files import refuse_stream, resolve
from seqloom.layers.bfloat16_products import Bfloat16Products, unsupported
from seqloom.layers.layer_error import describe_error
from seqloom.models.encoder import LayerFactory, layer_name
from seqloom.run import Run
from seqloom.run_document import check_task, find_data_files
from seqloom.tasks.task import Task
from seqloom.training.config import TrainConfig
from seqloom.training.gradient_update import LossFunction

SWEEP = "sweep"
"""The table with the search space of ``seqloom sweep``; all other commands ignore it."""


class Config(NamedTuple):
    """What is trained, and how."""

    task: Task
    train: TrainConfig

    @classmethod
    def build(cls, document: Document, *, defaults: bool = True, source: Any = None) -> "Config":
        """The typed configuration of a document; ConfigError lists everything that is wrong with it.

        ``defaults``: what the document leaves out gets the defaults of the task, which may depend on its training data
        (``source``, if they are in memory). The configuration of a run leaves nothing out.
        """
        check_task(document)
        kind, location = tasks.find(document.get("task.name")), document.location
        document = replace(document, values={name: table for name, table in document.values.items() if name != SWEEP})
        if defaults:
            document = document.with_defaults(task_defaults(kind, document, source=source))
        sections: dict[str, Any] = document.build(task=kind, train=TrainConfig)
        config = cls(**sections)
        if config.train.bptt_steps and config.task.no_bptt_reason:
            message = f"train.bptt_steps: expected 0, got {config.train.bptt_steps}: {config.task.no_bptt_reason}"
            raise ConfigError(f"{location('train.bptt_steps')}: {message}")
        if problem := _length_limit_problem(config):
            key, message = problem
            raise ConfigError(f"{location(key)}: {key}: {message}")
        return config

    @property
    def name(self) -> str:
        """The name of the task."""
        return self.task.name

    def text(self) -> str:
        """The complete configuration as TOML."""
        return configuration.dump(task=self.task, train=self.train)

    def check_precision(self) -> None:
        """Raise ValueError if products of this training cannot be computed in the precision that is configured."""
        settings, task = self.train, self.task
        if settings.precision == "float32":
            return
        reason = unsupported()
        if task.is_self_trained:
            reason = f"this {task.name} model is not trained by gradient descent"
        elif settings.device != "cpu":
            reason = f'train.device is "{settings.device}", and bfloat16 products run on the CPU'
        if reason:
            raise ValueError(f'train.precision: expected "float32", got "{settings.precision}": {reason}')

    def loss_function(self) -> LossFunction:
        """The loss of the task, whose products are of the precision that is configured."""
        self.check_precision()
        if self.train.precision == "float32":
            return self.task.loss
        products = Bfloat16Products()

        def loss(model: Any, batch: Any) -> Any:
            with products:
                return self.task.loss(model, batch)

        return loss

    def with_layer(self, layer: LayerFactory | None) -> "Config":
        """The same configuration with a custom layer or cell, if one is given."""
        return self if layer is None else self._replace(task=self.task.with_layer(layer))


def _length_limit_problem(config: Config) -> tuple[str, str] | None:
    """The key that is wrong and why, if long training examples cannot be treated as train.too_long says."""
    task, settings = config.task, config.train
    action = settings.too_long
    if action not in task.too_long:
        expected = " or ".join(f'"{name}"' for name in task.too_long)
        reason = "the target belongs to the whole input"
        return "train.too_long", f'expected {expected} for the task {task.name}, got "{action}": {reason}'
    if not settings.max_length:
        return None
    if task.no_max_length_reason:
        return "train.max_length", f"expected 0, got {settings.max_length}: {task.no_max_length_reason}"
    if settings.bptt_steps and action != "skip":
        return "train.max_length", (
            f"expected 0, got {settings.max_length}: train.bptt_steps = {settings.bptt_steps} cuts sequences of any "
            'length already; train.too_long = "skip" leaves long ones out'
        )
    return None


def config_template(task: str, *, data: str = "") -> str:
    """A commented configuration with all keys of a task; with its data, also those whose default depends on them."""
    kind = tasks.find(task)
    examples = (f"{PLACEHOLDER}{name}" if name else "" for name in kind.example_files)
    files = find_data_files(data) if data else dict(zip(("task.train", "task.dev"), examples, strict=True))
    document = Document.empty(values={"task.name": task, **(files if data else {})})
    return configuration.template(
        {"task": kind, "train": TrainConfig},
        {**task_defaults(kind, document), **files},
        left_open={} if data else kind.depends_on_data,
    )


def task_defaults(
    kind: type[Task],
    document: Document,
    *,
    source: Any = None,  # training data in memory
) -> dict[str, Any]:
    """The defaults of a task for a document and its training data, if these can be read."""
    too_long = {"train.too_long": kind.too_long[0]}
    values = too_long | kind.defaults(document, None)
    with suppress(ValueError, OSError):  # reported when the configuration is built, or the data are read
        data = _training_file(document) if source is None else source
        if data is not None:
            task: Any = document.with_defaults(values).build(task=kind, train=TrainConfig)["task"]
            training = task.model_copy(update={"dev": ""})  # the development data are checked once all is known
            values = too_long | kind.defaults(document, training.resolve(data)[0].preview(data))
    return values


def _training_file(document: Document) -> Path | None:
    """The training file of a configuration; None: there is none that can be read twice."""
    name = document.get("task.train")
    path = resolve(name) if isinstance(name, str) and name else None
    if path is not None:
        refuse_stream(path)
    return path


def find_layer(name: str) -> LayerFactory | None:
    """The custom layer or cell ``module:name``, also from the current folder; None if the name is empty."""
    if not name:
        return None
    module, _, attribute = name.partition(":")
    folder = str(Path.cwd())
    expected = f"--layer is {name!r}, expected module:name of a cell or a layer"
    if not module or not attribute:
        raise ValueError(f"{expected}, such as --layer {Path(module or 'mine').stem}:MyCell")
    sys.path.insert(0, folder)
    try:
        layer: Any = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"{expected}: {error}") from None
    except Exception as error:  # of the code in that module
        raise ValueError(f"{expected}, but {module} cannot be imported: {describe_error(error)}") from error
    finally:
        sys.path.remove(folder)
    if not callable(layer):
        raise TypeError(f"{expected}, found {type(layer).__name__}")
    factory: LayerFactory = layer
    return factory


class NamedLayer(NamedTuple):
    """A custom layer or cell, with the name that a run keeps of it."""

    name: str = ""
    place: str = ""  # module:name
    factory: LayerFactory | None = None


def find_named_layers(places: Sequence[str]) -> list[NamedLayer]:
    """The custom layers that are given as module:name."""
    return [NamedLayer(layer_name(layer), place, layer) for place in places if (layer := find_layer(place))]


def custom_layer(task: Task) -> str:
    """The name of a task's custom layer or cell; empty: it has none."""
    field = task.custom_layer_field
    return str(getattr(task, field).custom_layer) if field else ""


def load_config(run: Run, *, layer: LayerFactory | None = None) -> Config:
    """The configuration of a run, with its fitted task."""
    document = configuration.parse(run.config, str(run.path / "config.toml"))
    config = Config.build(document, defaults=False).with_layer(layer)
    changes = run.summary().get("train")  # made when the run was resumed
    if isinstance(changes, dict):
        config = config._replace(train=configuration.with_changes(config.train, "train", changes))
    return config._replace(task=config.task.with_learned(run))


FIXED = (
    "optimizer",
    "seed",
    "batch_size",
    "batch_tokens",
    "max_length",
    "too_long",
    "bptt_steps",
    "accumulate",
    "shuffle_buffer",
)
"""Settings of [train] on which the position in the data and the state of the optimizer depend."""


def resume_changes(overrides: Sequence[str]) -> dict[str, Any]:
    """The changes of [train] for a run that is resumed; ConfigError for those that are not possible."""
    document = Document.empty(overrides)
    for section, values in document.values.items():
        names = sorted(values) if isinstance(values, dict) else [""]
        fixed = [name for name in names if section != "train" or name in FIXED]
        if fixed:
            raise ConfigError(
                f"command line: {section}.{fixed[0]} cannot be changed when a run is resumed; start a new run from its "
                "weights instead: seqloom train CONFIG --from RUN"
            )
    changes: dict[str, Any] = document.values.get("train", {})
    document.build(train=TrainConfig)  # finds unknown keys and wrong values
    return changes


def default_learning_rate(run: Run, task: Task) -> float:
    """What the learning rate of a run would be if its configuration did not set it."""
    document = configuration.parse(run.config, str(run.path / "config.toml"))
    return float(type(task).defaults(document, None).get("train.learning_rate", TrainConfig().learning_rate))
