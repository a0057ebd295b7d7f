"""Contract checks for your own cells, layers and tasks; each raises an AssertionError that names the broken law."""

from seqloom.testing.cells import check_cell
from seqloom.testing.layers import check_layer
from seqloom.testing.tasks import check_task

__all__ = ["check_cell", "check_layer", "check_task"]
