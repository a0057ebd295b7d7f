"""Whether modules are still what they were when something was made of them."""

from collections.abc import Collection, Mapping

import torch
from torch import nn
from torch.nn.modules import module as every

from seqloom.kernels.marks import optimized

HOOKS = ("_forward_hooks", "_forward_pre_hooks")


class Unchanged:
    """Remembers a module's parts, some attributes of theirs, and its parameters.

    Of parameters that were ``copied``, the version counts too; of others only where they are. What has hooks is never
    unchanged. A change through ``parameter.data`` is not noticed: torch does not count it.
    """

    def __init__(
        self,
        whole: nn.Module,
        *,
        attributes: Mapping[type[nn.Module], tuple[str, ...]],  # of each kind of part, those that matter
        copied: Collection[nn.Parameter],
    ) -> None:
        found = [(module, vars(module)) for module in whole.modules()]
        self._attributes = [
            (own, name, own[name]) for module, own in found for name in attributes.get(type(module), ())
        ]
        self._parts = [(own["_modules"], tuple(own["_modules"].values())) for _, own in found if own["_modules"]]
        self._parameters = [
            (own["_parameters"], name, parameter, parameter.data_ptr())
            for _, own in found
            for name, parameter in own["_parameters"].items()
            if parameter is not None
        ]
        self._optimized = optimized()
        self._versions = [(parameter, parameter._version) for parameter in copied]  # noqa: SLF001
        self._hooks = _hooks(whole)

    def __call__(self) -> bool:
        if any(self._hooks) or self._optimized != optimized():
            return False
        for now, name, value in self._attributes:
            if now[name] != value:
                return False
        for now, parts in self._parts:
            if tuple(now.values()) != parts:
                return False
        for now, name, parameter, place in self._parameters:
            if now[name] is not parameter or parameter.data_ptr() != place:
                return False
        return all(parameter._version == version for parameter, version in self._versions)  # noqa: SLF001


def _hooks(whole: nn.Module) -> list[object]:
    own = [vars(module)[name] for module in whole.modules() for name in HOOKS]
    return [*own, every._global_forward_hooks, every._global_forward_pre_hooks]  # noqa: SLF001


def hooked(whole: nn.Module) -> bool:
    """Whether a part has hooks, which are to see every call."""
    return any(_hooks(whole))


def altered() -> bool:
    """Whether calls are changed by something of torch that compiled code would not notice."""
    return torch.is_autocast_enabled("cpu") or torch._C._functorch.maybe_current_level() is not None
