"""One sequence in, another one out: any encoder with any decoder, and what carries the one to the other."""

from typing import Any

from torch import Tensor, nn

from seqloom.models.decoder import Decoder


class EncoderDecoder(nn.Module):
    """An encoder makes a memory of the source; a decoder begins with it, and says the target symbol by symbol."""

    def __init__(self, encoder: nn.Module, decoder: Decoder) -> None:
        super().__init__()
        self.encoder = encoder  # the task's inputs and their mask → Memory
        self.decoder = decoder

    def start(
        self,
        inputs: Any,
        mask: Tensor,  # (B, S)
        *,
        coverage: bool = False,
    ) -> Any:
        """The state of the decoder before the first symbol."""
        return self.decoder.start(self.encoder(inputs, mask), len(mask), coverage=coverage)

    def features(
        self,
        inputs: Any,
        mask: Tensor,  # (B, S)
        tokens: Tensor,  # (B, T), the symbols before those that are to be said
        real: Tensor,  # (B, T), their mask
    ) -> Tensor:  # (N, D) of the real ones
        """Teacher forcing: what the softmax is computed from, of all steps in one call."""
        found, _ = self.decoder.features(tokens, self.start(inputs, mask), mask=real)
        return found[real]
