"""Looking inside models without changing them: gates, attention, explanations and their plots."""

from seqloom.insight.activation_plot import activation_curve, draw_activations
from seqloom.insight.anatomy_plot import draw_anatomy
from seqloom.insight.attention_capture import CapturedAttention, capture_attention
from seqloom.insight.attention_plot import attention_lines, draw_attention, draw_attention_heads
from seqloom.insight.explanation import AttentionMap, Explanation
from seqloom.insight.forecast_plot import draw_forecast
from seqloom.insight.gates import GateTrace, draw_gates, trace_gates
from seqloom.insight.learning_curves import draw_learning_curves
from seqloom.insight.model_parts import ModelPart, anatomy
from seqloom.insight.plotting import plot_theme
from seqloom.insight.position_plot import draw_positions
from seqloom.insight.report import draw_explanation, print_explanation

__all__ = [
    "AttentionMap",
    "CapturedAttention",
    "Explanation",
    "GateTrace",
    "ModelPart",
    "activation_curve",
    "anatomy",
    "attention_lines",
    "capture_attention",
    "draw_activations",
    "draw_anatomy",
    "draw_attention",
    "draw_attention_heads",
    "draw_explanation",
    "draw_forecast",
    "draw_gates",
    "draw_learning_curves",
    "draw_positions",
    "plot_theme",
    "print_explanation",
    "trace_gates",
]
