"""Looking inside of models, without changing anything."""

from seqloom.insight.alignments import Alignment, alignments
from seqloom.insight.plots import draw_gates
from seqloom.insight.telling import picture
from seqloom.insight.trace import Trace, trace

__all__ = ["Alignment", "Trace", "alignments", "draw_gates", "picture", "trace"]
