"""A network that moves a pen: freely, or to write a text (Graves 2013)."""

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from seqloom.data.batch import Padded
from seqloom.layers.attention.sliding_window import SlidingWindow
from seqloom.layers.dropout import Dropout
from seqloom.layers.layer import Layer, Memory
from seqloom.layers.recurrent.recurrent import Recurrent
from seqloom.layers.stack import Stack
from seqloom.models.encoder import TRANSFORMER, PrenetConfig, RecurrenceConfig, build_stack, group_above
from seqloom.models.stroke_distribution import END, LIFT, PEN_STATES, StrokeDistribution

POINT = 3  # numbers of a point: dx, dy, and 1 if the pen is lifted after it
AT_END = 0.5  # characters before the last one from which the model may end a text
PAST_END = 2.0  # characters that the window may be beyond the last one before writing stops
MIN_PROBABILITY = 1e-3  # lower bound of the initial probability of a state of the pen

Strokes = NDArray[np.float32]  # (T, 3)


class PenInputs(NamedTuple):
    """Drawings, each preceded by a point at rest, and the texts that they show."""

    points: Padded  # (B, T + 1, 3), scaled
    text: Padded  # (B, S), character ids; (B, 0) if the model reads no text


class PenTargets(NamedTuple):
    """What follows each point."""

    movement: Tensor  # (B, T + 1, 2), scaled; 0 at the end
    pen: Tensor  # (B, T + 1), DRAW, LIFT or END


class HandwritingModel(nn.Module):
    """Recurrent layers over the points so far, which give the distribution of the next point.

    A drawing has at least one point: the pen cannot end before the first one, unless ``never_empty`` is false.

    With ``characters`` > 0 the lowest layer reads a text through a sliding window, so that the text is written. With
    ``end_of_text``, a symbol after the text tells the network that no character follows.
    """

    def __init__(
        self,
        recurrence: RecurrenceConfig,
        *,
        components: int,  # Gaussians of the mixture
        characters: int = 0,  # size of the character vocabulary; 0: no text
        window_components: int = 10,
        end_of_text: bool = False,  # the last of the characters of each text only marks its end
        never_empty: bool = True,  # the end before the first point has no probability; it is never sampled
        pen: Sequence[float] | None = None,  # how often the pen draws, lifts and ends, from which training starts
    ) -> None:
        super().__init__()
        self.components = components
        self.characters = characters
        self.end_of_text = end_of_text
        self.never_empty = never_empty
        self.layer = _build_layer(recurrence, characters, window_components)
        self.dropout = Dropout(recurrence.dropout)
        self.output = nn.Linear(self.layer.output_size, StrokeDistribution.size(components))
        nn.init.uniform_(self.output.weight, -0.05, 0.05)
        nn.init.zeros_(self.output.bias)
        if pen is not None:
            self.output.bias.data[-PEN_STATES:] = torch.tensor(pen).clamp(min=MIN_PROBABILITY).log()

    def start(self, text: Padded) -> Any:
        """The state before the first point of each text."""
        if not self.characters:
            return self.layer.start(len(text.mask))
        return self.layer.start(len(text.mask), Memory(self._one_hot(text.values), text.mask, None))

    def forward(self, inputs: PenInputs) -> StrokeDistribution:  # (B, T + 1, …)
        """The distribution of what follows each point."""
        values, _ = self.layer(inputs.points.values, inputs.points.mask, self.start(inputs.text))
        distribution = StrokeDistribution.of(self.output(self.dropout(values)), self.components)
        return distribution.without_end(self._goes_on(inputs.points.mask))

    def log_probabilities(self, inputs: PenInputs, targets: PenTargets) -> Tensor:  # (B, T + 1)
        """Of each point and of the end, in units of the scaled movement; 0 in the padding."""
        mask = inputs.points.mask
        values, _ = self.layer(inputs.points.values, mask, self.start(inputs.text))
        distribution = StrokeDistribution.of(self.output(self.dropout(values[mask])), self.components)
        distribution = distribution.without_end(self._goes_on(mask)[mask])
        log_probabilities = distribution.log_probability(targets.movement[mask], targets.pen[mask])
        return log_probabilities.new_zeros(mask.shape).masked_scatter(mask, log_probabilities)

    def windows(self, inputs: PenInputs) -> Tensor | None:  # (B, T + 1, S)
        """How much of each character the lowest layer sees at each point; None if the model reads no text."""
        if not self.characters:
            return None
        window, state = self._lowest(self.start(inputs.text))
        return window.weights(inputs.points.values, inputs.points.mask, state).squeeze(1)

    @torch.no_grad()
    def sample(
        self,
        text: Padded,  # (B, S)
        *,
        length: int,  # maximum points of each drawing
        bias: float,  # 0: as the model has learned; larger: tidier
        generator: torch.Generator,
        prime: Tensor | None = None,  # (B, P, 3), points that precede the drawing and are not returned
    ) -> list[Strokes]:
        """Drawings with scaled movements, each until the model ends it."""
        batch = len(text.mask)
        state = self.start(text)
        point = self.output.weight.new_zeros(batch, 1, POINT)
        is_first = True
        if prime is not None and prime.shape[1]:
            is_first = False
            _, state = self.layer(torch.cat([point, prime[:, :-1]], dim=1), None, state)
            point = prime[:, -1:]
        active = torch.ones(batch, dtype=torch.bool, device=point.device)
        drawn: list[Tensor] = []
        for _ in range(length):
            values, state = self.layer(point, None, state)
            distribution = StrokeDistribution.of(self.output(values.squeeze(1)), self.components).biased(bias)
            beyond = self._beyond_text(state, text)
            goes_on = (beyond < -AT_END) | is_first
            movement, pen = distribution.without_end(goes_on).sample(generator)
            active = active & (pen != END) & (goes_on | (beyond < PAST_END))
            is_first = False
            if not active.any():
                break
            lifted = (pen == LIFT).to(movement.dtype)
            point = torch.cat([movement, lifted.unsqueeze(-1)], dim=-1).unsqueeze(1)
            drawn.append(point.masked_fill(~active[:, None, None], float("nan")))
            point = point.masked_fill(~active[:, None, None], 0)
        if not drawn:
            return [np.zeros((0, POINT), dtype=np.float32)] * batch
        points = torch.cat(drawn, dim=1).cpu().numpy().astype(np.float32)
        return [row[~np.isnan(row[:, 0])] for row in points]

    def _goes_on(self, mask: Tensor) -> Tensor:  # (B, T + 1) → (B, T + 1)
        """Where the pen cannot end: at the point at rest, after which the first point follows."""
        goes_on = torch.zeros_like(mask)
        goes_on[:, 0] = self.never_empty
        return goes_on

    def _beyond_text(self, state: Any, text: Padded) -> Tensor:  # (B,)
        """How many characters the window is beyond the last one; 0 without a text."""
        if not self.characters:
            return self.output.weight.new_zeros(len(text.mask))
        return self._lowest(state)[1].centre - (text.lengths - (2 if self.end_of_text else 1))

    def _lowest(self, state: Any) -> tuple[SlidingWindow, SlidingWindow.State]:
        """The layer that reads the text, and its part of the state."""
        if isinstance(self.layer, Stack):
            return cast(SlidingWindow, self.layer.layers[0]), state[0]
        return cast(SlidingWindow, self.layer), state

    def _one_hot(self, ids: Tensor) -> Tensor:  # (B, S) → (B, S, characters)
        return nn.functional.one_hot(ids, self.characters).to(self.output.weight.dtype)


def _build_layer(recurrence: RecurrenceConfig, characters: int, window_components: int) -> Layer:
    if not characters:
        return build_stack(PrenetConfig(), recurrence, POINT, causal=True)
    kinds = recurrence.kinds
    if not kinds or kinds[0] == TRANSFORMER:
        raise ValueError("a model that writes texts needs a recurrent cell in its lowest layer, such as lstm")
    recurrence.require_custom_layer()

    def with_window(lowest: Layer) -> Layer:
        if not isinstance(lowest, Recurrent):
            raise TypeError("a model that writes texts needs a cell in its lowest layer, not a custom layer")
        return SlidingWindow(lowest.cell, characters, components=window_components)

    layers = group_above(recurrence, POINT + characters, with_window)
    return layers[0] if len(layers) == 1 else Stack(layers, dropout=recurrence.dropout)
