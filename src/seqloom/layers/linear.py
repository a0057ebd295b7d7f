"""A linear map that is fast for few rows, as in generation, and that can multiply in int8."""

from typing import Any, Self

import torch
from torch import Tensor, nn

from seqloom.kernels.linalg.packed import LLVM_TYPES, MAX_LEFT_SIZE, PackedCache, PackedMatrix, pack_transposed
from seqloom.kernels.linalg.quantized import QuantizedMatrix
from seqloom.layers.layer import untraced


class Linear(nn.Linear):
    """``nn.Linear`` that multiplies few rows with a packed copy of the weights when no gradient is needed.

    The copy is renewed after the weights have changed. A change through ``weight.data``, which torch does not count,
    goes unnoticed; ``train()`` and ``eval()`` discard the copy.
    """

    int8: bool = False
    """Multiply in int8 where no gradient is needed (see layers/quantization.py)."""
    _packed: PackedCache[PackedMatrix] | PackedCache[QuantizedMatrix] | None = None

    @untraced
    def forward(self, input: Tensor) -> Tensor:  # noqa: A002  the name is torch's
        packed = self.packed_weights(input)
        if packed is None:
            return super().forward(input)
        rows = input.reshape(-1, self.in_features)
        out = packed.multiply(rows if rows.stride(1) == 1 else rows.contiguous())
        if self.bias is not None:
            out += self.bias
        return out.view(*input.shape[:-1], self.out_features) if input.dim() != 2 else out

    def packed_weights(self, x: Tensor) -> PackedMatrix | QuantizedMatrix | None:
        """Return the packed weights if they apply to this call."""
        weight = self.weight
        needs_gradient = torch.is_grad_enabled() and (x.requires_grad or weight.requires_grad)
        if needs_gradient or not x.numel() or x.dtype not in LLVM_TYPES or x.dtype != weight.dtype:
            return None
        if x.numel() > MAX_LEFT_SIZE and not self.int8:
            return None
        if x.device.type != "cpu" or weight.device.type != "cpu" or torch.is_autocast_enabled("cpu"):
            return None
        if torch._C._functorch.maybe_current_level() is not None or x.shape[-1] != self.in_features:
            return None
        if self._packed is None:
            self._packed = PackedCache(QuantizedMatrix) if self.int8 else PackedCache(pack_transposed)
        return self._packed(weight)

    def train(self, mode: bool = True) -> Self:  # noqa: FBT001, FBT002  torch's signature
        self._packed = None
        return super().train(mode)

    def __getstate__(self) -> dict[str, Any]:
        """Exclude the packed weights: they are computed again when needed."""
        return {**self.__dict__, "_packed": None}
