"""Gradient descent: accumulation, clipping, skipping of non-finite gradients, truncated BPTT, weight averaging."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from safetensors.torch import load, save
from torch import Tensor, nn

from seqloom.data.batch import Batch
from seqloom.data.loading import BatchLoader
from seqloom.state import apply
from seqloom.training import optimizers, snapshots
from seqloom.training.config import TrainConfig
from seqloom.training.distributed import SINGLE, ProcessGroup
from seqloom.training.progress import Position, UpdateResult
from seqloom.training.stored_state import check_training
from seqloom.training.update_rule import LearningRate, UpdateRule

COUNTED_EPOCHS = 100
"""Epochs whose batches are counted in advance; the number in further ones is extrapolated."""


class SummedLoss(Protocol):
    """A loss as a sum and a count."""

    @property
    def total(self) -> Tensor: ...  # ()

    @property
    def items(self) -> int: ...

    @property
    def state(self) -> Any: ...  # of the model after the batch


LossFunction = Callable[[nn.Module, Any], SummedLoss]


class GradientUpdate(UpdateRule):
    """One optimizer step per batch, with the gradient of the mean loss over all items of all processes."""

    def __init__(
        self,
        model: nn.Module,
        batches: BatchLoader,
        loss: LossFunction,
        settings: TrainConfig,
        *,
        group: ProcessGroup = SINGLE,
    ) -> None:
        super().__init__(model, settings, group=group)
        self.batches, self.loss = batches, loss
        self.optimizer = optimizers.build(
            settings.optimizer,
            model,
            learning_rate=settings.learning_rate,
            weight_decay=settings.weight_decay,
            momentum=settings.momentum,
        )
        self.carried: tuple[Any, ...] = ()  # the model's state after each part of the last batch (truncated BPTT)
        self.history: tuple[dict[str, Tensor], ...] = ()  # weights at the last evaluations, to be averaged

    def chunks(self, epoch: int, skip: int) -> Iterator[list[Batch]]:
        return self.batches.epoch(epoch, skip)

    def update(self, chunk: list[Batch], position: Position, learning_rate: LearningRate) -> UpdateResult:  # noqa: ARG002
        """One optimizer step with the gradient of all parts of a batch, or none if that is not finite."""
        settings, current_learning_rate = self.settings, learning_rate(0)
        loss, items, carried = self._accumulate_gradient(chunk)
        if self.group.size > 1:  # a process without a part of this batch still takes part in the sum
            for parameter in self.model.parameters():
                if parameter.requires_grad and parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)
        named = [(name, parameter.grad) for name, parameter in self.model.named_parameters()]
        names = [name for name, gradient in named if gradient is not None]
        gradients = [gradient for _, gradient in named if gradient is not None]
        self.group.sum_tensors(gradients)
        norms = optimizers.tensor_norms(gradients)
        norm = optimizers.total_norm(norms) / max(items, 1)
        finite = math.isfinite(norm) and math.isfinite(loss)
        clipped = finite and bool(settings.clip_norm) and norm > settings.clip_norm
        if finite and items:
            optimizers.set_learning_rate(self.optimizer, current_learning_rate)
            optimizers.step(self.optimizer, divisor=items * (norm / settings.clip_norm if clipped else 1.0))
            self.carried = carried
        elif not any(part.continues for part in chunk):
            self.carried = ()  # the state of the previous epoch must not be carried over
        self.optimizer.zero_grad()
        for module in self.model.modules():
            getattr(module, "after_update", bool)()  # modules that depend on the number of updates
        return UpdateResult(
            loss,
            items,
            seen=int(items),
            processed=sum(part.items for part in chunk),
            learning_rate=current_learning_rate,
            gradient_norm=norm,
            finite=finite,
            clipped=clipped,
            group_norms=lambda: optimizers.group_norms(names, norms / max(items, 1)),
        )

    def _accumulate_gradient(self, parts: list[Batch]) -> tuple[float, float, tuple[Any, ...]]:
        """Add up the gradients of all parts; the summed loss, the number of items, and the states to carry over."""
        summed, items, carried = 0.0, 0, []
        for slot, part in enumerate(parts):
            state = self.carried[slot] if part.continues and slot < len(self.carried) else None
            loss = self.loss(self.model, part._replace(state=state).to(self.settings.device))
            loss.total.backward()
            summed += float(loss.total.detach())
            items += loss.items
            if loss.state is not None and self.settings.bptt_steps:
                carried.append(apply(Tensor.detach, loss.state))
        return *self.group.sum(summed, items), tuple(carried)  # type: ignore[return-value]

    def epochs_done(self, position: Position, ahead: int = 0) -> float:  # noqa: ARG002  the learning rate is constant in a batch
        length = self.batches.count(position.epoch)
        return position.epoch + (position.batch / length if length else 0.0)

    def updates_done(self, position: Position, ahead: int = 0) -> float:  # noqa: ARG002  as above
        return position.update

    def updates_in_epochs(self, epochs: int) -> int | None:
        counted = min(epochs, COUNTED_EPOCHS)
        counts = [count for epoch in range(counted) if (count := self.batches.count(epoch)) is not None]
        if len(counts) < counted:
            return None
        return sum(counts) if counted == epochs else sum(counts) * epochs // counted

    def updates_for_tokens(self, tokens: int, position: Position) -> float | None:
        return position.update * tokens / position.seen if position.seen else None

    @contextmanager
    def evaluation_weights(self) -> Iterator[None]:
        """With averaging, the model has the mean of its weights at the last evaluations, this one included."""
        if self.settings.average_checkpoints <= 1:
            yield
            return
        self.history = (*self.history, snapshots.copy_weights(self.model))[-self.settings.average_checkpoints :]
        self.model.load_state_dict(snapshots.average_weights(self.history))
        yield
        self.model.load_state_dict(self.history[-1])

    def weights(self) -> dict[str, Tensor]:
        return snapshots.average_weights(self.history) if self.history else snapshots.copy_weights(self.model)

    def state(self) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Copies: the weights; the optimizer, the averaged weights, and each process's random and carried state."""
        own: dict[str, Tensor] = {"random": torch.get_rng_state()}
        for slot, state in enumerate(self.carried):
            own.update(snapshots.flatten_state(state, f"carried.{slot}"))
        own = {name: tensor.contiguous() for name, tensor in own.items()}
        training: dict[str, Tensor] = {}
        for index, weights in enumerate(self.history):
            training.update({f"weights.{index}.{name}": tensor for name, tensor in weights.items()})
        for index, values in self.optimizer.state_dict()["state"].items():
            training.update({f"optimizer.{index}.{key}": value for key, value in values.items() if value is not None})
        for rank, data in enumerate(self.group.all_gather(save(own))):
            training.update({f"rank.{rank}.{name}": tensor for name, tensor in load(data).items()})
        return (
            snapshots.copy_weights(self.model),
            {name: tensor.detach().clone() for name, tensor in training.items()},
        )

    def load_state(self, weights: dict[str, Tensor], training: dict[str, Tensor]) -> None:
        parameters = [parameter for group in self.optimizer.param_groups for parameter in group["params"]]
        check_training(training, parameters, self.model.state_dict(), rank=self.group.rank)
        self.model.load_state_dict(weights)
        nested = snapshots.nest(training)
        optimizer = {int(index): values for index, values in nested.get("optimizer", {}).items()}
        self.optimizer.load_state_dict(
            {"state": optimizer, "param_groups": self.optimizer.state_dict()["param_groups"]}
        )
        own = nested["rank"][str(self.group.rank)]
        torch.set_rng_state(own["random"])
        slots = sorted(own.get("carried", {}).items(), key=lambda item: int(item[0]))
        self.carried = tuple(snapshots.unflatten_state(slot) for _, slot in slots)
        history: dict[int, dict[str, Tensor]] = {}
        for name, tensor in training.items():
            if name.startswith("weights."):
                _, index, parameter = name.split(".", 2)
                history.setdefault(int(index), {})[parameter] = tensor
        self.history = tuple(history[index] for index in sorted(history))

    @property
    def copies(self) -> int:
        """The weights, their gradient, and what the optimizer keeps."""
        settings = self.settings
        return 2 + (int(settings.momentum > 0) if settings.optimizer == "sgd" else 2)

    def dry_run(self) -> int:
        """The gradient of the first batch, without a step of the optimizer."""
        self.model.train()
        peak = 0
        for part in next(self.batches.epoch(0), []):
            saved = _SavedTensors()
            with torch.autograd.graph.saved_tensors_hooks(saved.add, lambda tensor: tensor):
                loss = self.loss(self.model, part.to(self.settings.device))
            loss.total.backward()
            peak = max(peak, sum(saved.sizes.values()))
            gradients = [parameter.grad for parameter in self.model.parameters() if parameter.grad is not None]
            if not all(bool(tensor.isfinite().all()) for tensor in (loss.total, *gradients)):
                raise ValueError("the loss or its gradient is not finite")
        self.optimizer.zero_grad()
        return peak

    def count_updates(self, lengths: Sequence[int], *, tokens: int | None) -> int | None:
        """With ``batch_tokens`` the number differs slightly from epoch to epoch."""
        settings = self.settings
        if settings.bptt_steps:
            return None if tokens is None else math.ceil(math.ceil(tokens / settings.batch_size) / settings.bptt_steps)
        batches = BatchLoader(
            lambda: (range(length) for length in lengths),  # only their len is used
            self.batches.collate,
            batch_size=settings.batch_size,
            batch_tokens=settings.batch_tokens,
            shuffle=False,
            shuffle_buffer=max(len(lengths), 1),
        )
        return batches.count(0)


class _SavedTensors:
    """Bytes kept for the backward pass, by the address of their memory; parameters are not counted."""

    def __init__(self) -> None:
        self.sizes: dict[int, int] = {}

    def add(self, tensor: Tensor) -> Tensor:
        if not isinstance(tensor, nn.Parameter):
            self.sizes[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor
