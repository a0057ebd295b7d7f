"""Whether an array still holds what was copied from it."""

from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_post_hook

_taken = [0]


def _take(*_: object) -> None:
    _taken[0] += 1


register_optimizer_step_post_hook(_take)


def optimized() -> int:
    """How many steps optimisers have taken, all together: fused ones change parameters without counting a version."""
    return _taken[0]


def mark(tensor: Tensor) -> tuple[int, ...]:
    """Another one after every change but those through ``tensor.data``, which torch does not count."""
    return tensor.data_ptr(), tensor._version, optimized()  # noqa: SLF001  there is no other sign
