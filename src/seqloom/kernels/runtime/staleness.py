"""Whether compiled code and packed copies of weights still match the modules and tensors that they were made from."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.nn.modules import module as torch_modules
from torch.optim.optimizer import register_optimizer_step_post_hook

from seqloom.kernels.runtime.identities import (
    Comparison,
    Identities,
    compare_empty,
    compare_entry,
    compare_equal,
    compare_number,
    compare_result,
    compare_size,
    compare_values,
)

FORWARD_HOOKS = ("_forward_hooks", "_forward_pre_hooks")
BACKWARD_HOOKS = ("_backward_hooks", "_backward_pre_hooks")

_optimizer_steps = [0]


def _count_step(*_: object) -> None:
    _optimizer_steps[0] += 1


register_optimizer_step_post_hook(_count_step)


def optimizer_steps() -> int:
    """The steps of all optimizers so far: fused optimizers change parameters without a new version number."""
    return _optimizer_steps[0]


def tensor_version(tensor: Tensor) -> tuple[int, ...]:
    """Differs after every change of the tensor, except through ``tensor.data``, which torch does not count."""
    return tensor.data_ptr(), tensor._version, optimizer_steps()  # noqa: SLF001  there is no public counter


def hook_tables(modules: Iterable[nn.Module], kinds: tuple[str, ...]) -> Iterator[Mapping[int, object]]:
    """The dictionaries in which the modules keep their hooks of these kinds."""
    return (vars(module)[kind] for module in modules for kind in kinds)


def global_forward_hooks() -> tuple[Mapping[int, object], ...]:
    """The dictionaries of hooks that torch calls for every module."""
    return torch_modules._global_forward_hooks, torch_modules._global_forward_pre_hooks  # noqa: SLF001


def active_transform() -> str | None:
    """The active torch context, if any, that changes what calls compute and that compiled code would ignore."""
    if torch.is_autocast_enabled("cpu"):
        return "inside torch.autocast"
    if torch._C._functorch.maybe_current_level() is not None:
        return "inside a torch.func transformation"
    if forward_ad._current_level >= 0:  # noqa: SLF001  there is no public function
        return "inside forward-mode differentiation"
    return None


def no_transform() -> tuple[Comparison, ...]:
    """That no such context is active, for compiled code. To be called while none is."""
    return (
        compare_result(partial(torch.is_autocast_enabled, "cpu")),
        compare_result(torch._C._functorch.maybe_current_level),
        compare_entry(vars(forward_ad), "_current_level"),
    )


class ModuleSnapshot:
    """A module's children, some of its attributes, and its parameters, to be compared with what they are later.

    ``copied`` parameters must keep their version, others only their address. A module with forward hooks
    never matches. A change through ``parameter.data`` is not noticed: torch does not count it.
    """

    def __init__(
        self,
        module: nn.Module,
        *,
        attributes: Mapping[type[nn.Module], tuple[str, ...]],  # attributes that matter, by type of module
        copied: Collection[nn.Parameter],
    ) -> None:
        modules = [(part, vars(part)) for part in module.modules()]
        self._attributes = [
            (fields, name, fields[name]) for part, fields in modules for name in attributes.get(type(part), ())
        ]
        self._children = [
            (fields["_modules"], tuple(fields["_modules"].values())) for _, fields in modules if fields["_modules"]
        ]
        self._parameters = [
            (fields["_parameters"], name, parameter, parameter.data_ptr())
            for _, fields in modules
            for name, parameter in fields["_parameters"].items()
            if parameter is not None
        ]
        self._optimizer_steps = optimizer_steps()
        self._versions = [(parameter, parameter._version) for parameter in copied]  # noqa: SLF001
        self._hooks = [*hook_tables(module.modules(), FORWARD_HOOKS), *global_forward_hooks()]
        self._identities = Identities(self._comparisons())

    def _comparisons(self) -> Iterator[Comparison]:
        """The same for compiled code, which compares attributes by identity."""
        yield compare_number(optimizer_steps)
        for table in self._hooks:
            yield compare_empty(table)
        for fields, name, _ in self._attributes:
            yield compare_entry(fields, name)
        for modules, _ in self._children:
            yield compare_size(modules)
            yield from compare_values(dict.values, modules) or ()
        for parameters, name, parameter, _ in self._parameters:
            yield compare_entry(parameters, name)
            yield compare_number(parameter.data_ptr)
        for parameter, _ in self._versions:
            yield compare_equal(parameter, "_version")

    def matches(self) -> bool:
        """Whether nothing has changed."""
        if self._identities.same():
            return True
        if not self._is_equal():
            return False
        self._identities = Identities(self._comparisons())  # an attribute is another object, and equal
        return True

    def _is_equal(self) -> bool:
        if any(self._hooks) or self._optimizer_steps != optimizer_steps():
            return False
        for fields, name, value in self._attributes:
            if fields[name] != value:
                return False
        for modules, children in self._children:
            if tuple(modules.values()) != children:
                return False
        for parameters, name, parameter, address in self._parameters:
            if parameters[name] is not parameter or parameter.data_ptr() != address:
                return False
        return all(parameter._version == version for parameter, version in self._versions)  # noqa: SLF001
