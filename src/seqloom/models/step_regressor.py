"""Numbers at each element of a sequence."""

from typing import Any

from torch import Tensor, nn

from seqloom.models.encoder import Encoder


class StepRegressor(nn.Module):
    """An encoder and a linear output at each element."""

    def __init__(self, encoder: Encoder, targets: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.linear = nn.Linear(encoder.size, targets)

    def forward(self, inputs: Any, state: Any = None) -> tuple[Tensor, Any]:  # (B, T, K), state
        memory = self.encoder(inputs, inputs.mask, state)
        return self.linear(memory.values), memory.state
