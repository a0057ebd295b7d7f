"""Looking inside of models, without changing anything."""

from seqloom.insight.plots import draw_gates
from seqloom.insight.trace import Trace, trace

__all__ = ["Trace", "draw_gates", "trace"]
