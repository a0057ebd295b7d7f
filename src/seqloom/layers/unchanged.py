"""Whether modules are still what they were when something was made of them."""

import torch
from torch import nn
from torch.nn.modules import module as every

HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


class Unchanged:
    """Remembers a module's parts, its parameters and their versions, and the attributes of parts of the given kinds.

    What has hooks is never unchanged. A change through ``parameter.data`` is not noticed: torch does not count it.
    """

    def __init__(self, whole: nn.Module, kinds: tuple[type[nn.Module], ...]) -> None:
        found = [(module, vars(module)) for module in whole.modules()]
        # Dictionaries are compared value by value, each first by identity: this is quick, and calls nothing.
        self._attributes = [(own, dict(own)) for module, own in found if isinstance(module, kinds)]
        self._parts = [(own["_modules"], tuple(own["_modules"].values())) for _, own in found if own["_modules"]]
        self._parameters = [
            (own["_parameters"], name, parameter, parameter.data_ptr(), parameter._version)  # noqa: SLF001
            for _, own in found
            for name, parameter in own["_parameters"].items()
            if parameter is not None
        ]
        self._hooks = [own[name] for _, own in found for name in HOOKS]
        self._hooks += [every._global_forward_hooks, every._global_forward_pre_hooks]  # noqa: SLF001

    def __call__(self) -> bool:
        if any(self._hooks):
            return False
        for now, then in self._attributes:
            if now != then:
                return False
        for now, parts in self._parts:
            if tuple(now.values()) != parts:
                return False
        for now, name, parameter, place, version in self._parameters:
            if now[name] is not parameter or parameter._version != version or parameter.data_ptr() != place:  # noqa: SLF001
                return False
        return True


def watched() -> bool:
    """Whether calls are changed by something of torch that compiled code would not notice."""
    return torch.is_autocast_enabled("cpu") or torch._C._functorch.maybe_current_level() is not None
