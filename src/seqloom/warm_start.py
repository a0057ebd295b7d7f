"""A new training that starts from the weights of another run: with its vocabulary, or with one that is mapped to it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from seqloom.config import ConfigSection
from seqloom.data.text.tokenizers import Tokenizer
from seqloom.data.text.vocabulary import Labels, Vocabulary
from seqloom.models.stored_weights import check_finite
from seqloom.run import Run, RunError
from seqloom.run_config import Config
from seqloom.tasks.task import Task

VocabularySource = Literal["shared", "mapped"]


@dataclass(frozen=True)
class WarmStart:
    """A run whose weights are used, and the configuration of that run."""

    run: Run
    config: Config
    vocabulary: VocabularySource = "shared"

    def adapt(self, task: Task) -> Task:
        """The fitted task with the vocabularies and scales of the run, unless they are mapped."""
        source = self.config.task
        if task.name != source.name:
            raise ValueError(f"{self.run.path} has the task {source.name}, but the new run has the task {task.name}")
        if conflict := task.warm_start_conflict(source):
            raise ValueError(f"{self.run.path} cannot be the start of the new run: {conflict}")
        if self.vocabulary == "mapped":
            return task
        source.load_model(self.weights, self.run.path)  # what the new model gets is no larger than these weights
        return task.share_learned(source)

    @cached_property
    def weights(self) -> dict[str, Tensor]:
        """The best weights of the run."""
        return self.run.load_best().model

    def load(self, task: Task, module: nn.Module) -> tuple[str, ...]:
        """Copy the weights of the run into the module of a fitted task; notes about what was copied."""
        source = self.config.task
        if task.is_self_trained:
            raise TypeError(f"this {task.name} model cannot start from another: it is not trained by gradient descent")
        weights = self.weights
        old, new = dict(_vocabularies(source.learned)), dict(_vocabularies(task.learned))
        axes = {name: _axes(task, module, name) for name in new if name in old}
        copied, fresh = 0, []
        with torch.no_grad():
            for name, parameter in module.named_parameters():
                if name not in weights:
                    fresh.append(name)
                    continue
                rows = {axis: field for field in axes for axis in axes[field].get(name, ())}
                _copy(
                    parameter,
                    weights[name],
                    name,
                    {axis: (new[field], old[field]) for axis, field in rows.items()},
                    self.run,
                )
                copied += 1
        check_finite(module, self.run.path)
        if not copied:
            raise RunError(f"{self.run.path}: no weight has the name of one of the new model")
        notes = [f"weights from {self.run.path}: {copied} of {copied + len(fresh)} tensors copied"]
        if fresh:
            notes[0] += f", others start at random: {', '.join(fresh[:3])}{' …' if len(fresh) > 3 else ''}"
        for field, used in axes.items():
            if used and old[field] != new[field]:
                known = len(set(old[field]) & set(new[field]))
                notes.append(f"{field}: {known:,} of {len(new[field]):,} entries have weights from {self.run.path}")
        return tuple(notes)


def _vocabularies(learned: ConfigSection | None) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The entries of each vocabulary and of the labels of a fitted task, by field."""
    for name, value in learned or ():
        if isinstance(value, Tokenizer):
            yield name, value.vocabulary.tokens
        elif isinstance(value, Vocabulary):
            yield name, value.tokens
        elif isinstance(value, Labels) and value.names:  # none where numbers are predicted
            yield name, value.names


def _axes(task: Task, module: nn.Module, field: str) -> dict[str, list[int]]:
    """The axes of each parameter that are as long as a vocabulary, found by building a model with one more entry."""
    assert task.learned is not None  # noqa: S101  the task is fitted
    larger = task.model_copy(update={"learned": _with_one_more(task.learned, field)})
    with torch.random.fork_rng(devices=[]):
        probe = dict(larger.build_model().named_parameters())
    axes = {}
    for name, parameter in module.named_parameters():
        sizes = zip(parameter.shape, probe[name].shape, strict=True)
        if changed := [axis for axis, (size, other) in enumerate(sizes) if other != size]:
            axes[name] = changed
    return axes


def _with_one_more(learned: ConfigSection, field: str) -> ConfigSection:
    """A copy whose vocabulary has one more entry; sequences with a value for each entry get one more as well."""
    value: Any = getattr(learned, field)
    changes: dict[str, Any] = {}
    if isinstance(value, Tokenizer):
        entries = value.vocabulary.tokens
        changes[field] = value.model_copy(update={"vocabulary": Vocabulary(tokens=_longer(entries))})
    elif isinstance(value, Vocabulary):
        entries = value.tokens
        changes[field] = Vocabulary(tokens=_longer(entries))
    else:
        entries = value.names
        changes[field] = Labels(names=_longer(entries))
    for name, other in learned:
        if (
            isinstance(other, tuple)
            and len(other) == len(entries)
            and all(isinstance(each, int | float) for each in other)
        ):
            changes[name] = (*other, other[-1])
    return learned.model_copy(update=changes)


def _longer(entries: Sequence[str]) -> tuple[str, ...]:
    """The entries and a new one, which looks like the last."""
    extra = f"{entries[-1]}x"
    while extra in entries:
        extra += "x"
    return (*entries, extra)


def _copy(
    target: Tensor,
    source: Tensor,
    name: str,
    entries: dict[int, tuple[tuple[str, ...], tuple[str, ...]]],  # by axis: the new and the old vocabulary
    run: Run,
) -> None:
    """Copy a tensor; along the axes of a vocabulary, the entries that both have."""
    fixed = [axis for axis in range(target.ndim) if axis not in entries]
    if source.ndim != target.ndim or any(source.shape[axis] != target.shape[axis] for axis in fixed):
        raise ValueError(
            f"{name} has the shape {tuple(target.shape)}, but {tuple(source.shape)} in {run.path}: "
            "use the layers and sizes of that run"
        )
    new_rows, old_rows = [], []
    for axis in range(target.ndim):
        new, old = entries.get(axis, ((), ()))
        if not new:
            rows = others = list(range(target.shape[axis]))
        else:
            positions = {entry: index for index, entry in enumerate(old)}
            pairs = [(index, positions[entry]) for index, entry in enumerate(new) if entry in positions]
            # Further rows, such as the start and the end of a CRF, come after those of the entries.
            extra = min(target.shape[axis] - len(new), source.shape[axis] - len(old))
            pairs += [(len(new) + index, len(old) + index) for index in range(extra)]
            rows, others = [index for index, _ in pairs], [index for _, index in pairs]
        new_rows.append(rows)
        old_rows.append(others)
    target[np.ix_(*new_rows)] = source[np.ix_(*old_rows)].to(target)
