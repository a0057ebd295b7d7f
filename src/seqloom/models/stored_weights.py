"""The model of a run with its weights. The run may be damaged or malicious: no more is allocated than its weights."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from seqloom.layers.layer_error import LayerError
from seqloom.run import RunError
from seqloom.training.self_trained import CountingModel
from seqloom.training.snapshots import bad_weights

FREE_ELEMENTS, FREE_TENSORS = 1 << 20, 200
"""Elements and tensors that are not stored, such as windows and filters."""
MARGIN = 3
"""Elements and tensors that may be created for each that is stored, such as intermediate results."""
SHOWN = 3  # names in a message

FOREIGN_ERRORS = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError),
    *(MemoryError, RuntimeError, TypeError, ValueError),
)
"""What the libraries below raise where the parts of a run contradict each other."""


class TooLarge(ValueError):
    """The configuration describes a model that is larger than the weights."""


def build_with_weights(
    build: Callable[[], nn.Module],
    weights: Mapping[str, Tensor],
    origin: object,  # the run, named in errors
    *,
    trusted: bool = False,  # custom layers, given by the user, may allocate what they like
) -> nn.Module:
    """A model with these weights; RunError if they do not fit."""
    module = build_for_weights(build, weights, origin, trusted=trusted)
    load_weights(module, weights, origin)
    return module


def build_for_weights(
    build: Callable[[], nn.Module], weights: Mapping[str, Tensor], origin: object, *, trusted: bool = False
) -> nn.Module:
    """A model without these weights; RunError if it would be larger than they are."""
    try:
        return build() if trusted else build_within(build, weights.values())
    except TooLarge as error:
        raise RunError(f"{origin}: the weights do not fit the configuration: {error}") from None
    except (RunError, LayerError):
        raise
    except FOREIGN_ERRORS as error:
        if trusted:
            raise
        raise RunError(f"{origin}: the model cannot be built from this configuration: {first_line(error)}") from error


def load_weights(module: nn.Module, weights: Mapping[str, Tensor], origin: object) -> None:
    """Copy stored weights into a model; RunError if they do not fit it, or if no model could compute with them."""
    if not isinstance(module, CountingModel) and (problem := misfit(module.state_dict(), weights)):
        raise RunError(f"{origin}: the weights do not fit the configuration: {problem}")
    try:
        module.load_state_dict(weights)
    except FOREIGN_ERRORS as error:
        raise RunError(f"{origin}: the weights do not fit the configuration: {first_line(error)}") from error
    check_finite(module, origin)


def check_finite(module: nn.Module, origin: object) -> None:
    """Raise RunError if no model could compute with these weights."""
    if problem := bad_weights(module):
        raise RunError(f"{origin}: the weights are too large or not finite, so the model cannot be used ({problem})")


def misfit(expected: Mapping[str, Tensor], weights: Mapping[str, Tensor]) -> str:
    """How stored weights differ from those of a model in names, shapes and types; empty: not at all."""
    if missing := [name for name in expected if name not in weights]:
        return f"{_names(missing)} missing"
    if extra := [name for name in weights if name not in expected]:
        return f"{_names(extra)} unknown"
    for name, tensor in weights.items():
        own = expected[name]
        if own.shape != tensor.shape:
            return f"{name}: expected the shape {tuple(own.shape)}, found {tuple(tensor.shape)}"
        if own.is_floating_point() != tensor.is_floating_point() or tensor.is_complex():
            return f"{name}: expected {_type(own)}, found {_type(tensor)}"
    return ""


def build_within(build: Callable[[], nn.Module], weights: Iterable[Tensor]) -> nn.Module:
    """Build a model that may create no more, and no larger, tensors than those of its weights explain."""
    sizes = [tensor.numel() for tensor in {id(tensor): tensor for tensor in weights}.values()]  # one may have two names
    limit = _AllocationLimit(elements=MARGIN * sum(sizes) + FREE_ELEMENTS, tensors=MARGIN * len(sizes) + FREE_TENSORS)
    with limit:
        return build()


def first_line(error: BaseException) -> str:
    """The first line of an error message, or the kind of error if there is none."""
    return str(error).strip().partition("\n")[0][:200] or type(error).__name__


class _AllocationLimit(TorchDispatchMode):
    """Stops a computation before it creates too many or too large tensors."""

    def __init__(self, *, elements: int, tensors: int) -> None:
        super().__init__()
        self.elements, self.tensors = elements, tensors

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # skipping imports torch._dynamo, which takes more than a second

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        arguments = dict(zip((each.name for each in function._schema.arguments), args, strict=False)) | (kwargs or {})
        if not isinstance(args[0] if args else None, Tensor):
            self._spend(_created_elements(arguments))
        elif _product(arguments.get("size") or arguments.get("repeats") or ()) > self.elements:
            raise TooLarge("the configuration describes a larger model")
        return function(*args, **kwargs or {})

    def _spend(self, elements: int) -> None:
        self.elements -= elements
        self.tensors -= 1
        if self.elements < 0 or self.tensors < 0:
            raise TooLarge("the configuration describes a larger model")


def _created_elements(arguments: Mapping[str, Any]) -> int:
    """The elements of the tensor that an operation without input tensors creates."""
    if isinstance(size := arguments.get("size"), list | tuple):
        return _product(size)
    numbers = [abs(value) for value in arguments.values() if isinstance(value, int | float) and value == value]
    step = arguments.get("step", 1) or 1
    largest = max(numbers, default=1)
    return int(min(largest / abs(step), 1e18)) if isinstance(step, int | float) else int(min(largest, 1e18))


def _product(size: Iterable[Any]) -> int:
    product = 1
    for length in size:
        product *= max(int(length), 1)
    return product


def _names(names: list[str]) -> str:
    shown = ", ".join(name[:80] for name in names[:SHOWN])
    more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    return f"{shown}{more} {'is' if len(names) == 1 else 'are'}"


def _type(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
