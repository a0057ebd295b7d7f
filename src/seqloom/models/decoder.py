"""Decoders: an embedding, a causal layer and a softmax; a language model, or half of an encoder-decoder."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn

from seqloom.data.batch import Batch
from seqloom.decoding.frames.language_models import NeuralLM
from seqloom.layers.compiled_step.choosing import Choice, Chosen
from seqloom.layers.compiled_step.stepper import Stepper, unsupported
from seqloom.layers.dropout import Dropout, VariationalDropout
from seqloom.layers.embedding import UNKNOWN, Embedding
from seqloom.layers.layer import Layer, Memory
from seqloom.layers.linear import Linear
from seqloom.layers.softmax_loss import cross_entropy, log_probabilities, score_tokens


class SoftmaxInputs(NamedTuple):
    """What the softmax of a language model reads for all real tokens of a batch."""

    features: Tensor  # (N, D)
    target: Tensor  # (N,)
    state: Any  # of the model after the batch


class TokenScores(NamedTuple):
    """The log-probabilities of the tokens of each text."""

    forward: list[list[float]]  # given the tokens before
    backward: list[list[float]] | None = None  # given the tokens after, the last token first; None: forward only
    state: Any = None  # of the model after the batch


class Decoder(nn.Module):
    """An embedding, a causal layer, and a softmax over the vocabulary.

    ``tied``: the embedding matrix is also the output matrix (Press and Wolf 2017), after a linear map if the layer's
    output size differs from the embedding size.
    """

    def __init__(
        self,
        embed: Embedding,
        layer: Layer,
        *,
        tied: bool = False,
        dropout: float = 0.0,  # on the output of the layer
        variational: bool = False,
    ) -> None:
        super().__init__()
        self.embed = embed
        self.layer = layer
        self.dropout: nn.Module = VariationalDropout(dropout) if variational else Dropout(dropout)
        bridged = tied and layer.output_size != embed.embedding_dim
        self.bridge = Linear(layer.output_size, embed.embedding_dim) if bridged else nn.Identity()
        size = embed.embedding_dim if tied else layer.output_size
        self.output = Linear(size, embed.num_embeddings)
        nn.init.uniform_(self.output.weight, -0.1, 0.1)
        nn.init.zeros_(self.output.bias)
        if tied:
            self.output.weight = embed.weight
        self._stepper = Stepper()

    def start(self, memory: Memory | None, batch: int, *, coverage: bool = False) -> Any:
        """The state before the first token of each of ``batch`` sequences; a language model has no memory."""
        return self.layer.start(batch, memory, coverage=coverage)

    def features(
        self,
        tokens: Tensor,  # (B, T)
        state: Any = None,
        *,
        mask: Tensor | None = None,  # (B, T)
    ) -> tuple[Tensor, Any]:  # (B, T, D), state
        """The input of the softmax."""
        values, state = self.layer(self.embed(tokens), mask, state)
        return self.bridge(self.dropout(values)), state

    def forward(
        self,
        tokens: Tensor,  # (B, T)
        state: Any = None,
        *,
        mask: Tensor | None = None,  # (B, T)
    ) -> tuple[Tensor, Any]:  # logits (B, T, V), state
        values, state = self.features(tokens, state, mask=mask)
        return self.output(values), state

    def loss(
        self,
        features: Tensor,  # (N, D)
        target: Tensor,  # (N,)
        *,
        smoothing: float = 0.0,
    ) -> Tensor:  # ()
        """The sum of the targets' negative log-probabilities."""
        return cross_entropy(features, self.output.weight, self.output.bias, target, smoothing=smoothing)

    def log_probabilities(
        self,
        features: Tensor,  # (N, D)
        target: Tensor,  # (N,)
    ) -> Tensor:  # (N,)
        return log_probabilities(features, self.output, target)

    def score_tokens(
        self,
        features: Tensor,  # (N, D)
        target: Tensor,  # (N,)
    ) -> tuple[Tensor, Tensor]:  # (N,), (N,)
        """The log-probability of each target, and whether it is the most probable token."""
        return score_tokens(features, self.output, target)

    def softmax_inputs(self, batch: Batch) -> SoftmaxInputs:
        """As a language model: the inputs and targets of the softmax without padding."""
        values, mask = batch.inputs
        whole = bool(mask.all())
        features, state = self.features(values, batch.state, mask=None if whole else mask)
        if whole:
            return SoftmaxInputs(features.flatten(0, 1), batch.target.flatten(), state)
        return SoftmaxInputs(features[mask], batch.target[mask], state)

    def score_texts(self, batch: Batch) -> TokenScores:
        """As a language model: the log-probabilities of the tokens of each row."""
        features, target, state = self.softmax_inputs(batch)
        rows = self.log_probabilities(features, target).split(batch.inputs.lengths.tolist())
        return TokenScores([row.tolist() for row in rows], state=state)

    def search_lm(self, *, end: int, vocabulary_ids: Sequence[int]) -> NeuralLM:
        """As the language model of a search over frames."""
        return neural_lm(self, end=end, vocabulary_ids=vocabulary_ids)

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any] | None:  # (B,) → (B, V), state
        """One compiled step; None if it cannot be compiled."""
        return self._stepper(self, tokens, state) if type(self) is Decoder else None

    def choose(self, tokens: Tensor, state: Any, choice: Choice) -> Chosen | None:
        """The most probable tokens of several compiled steps; None if they cannot be compiled."""
        return self._stepper.choose(self, tokens, state, choice) if type(self) is Decoder else None

    @property
    def path(self) -> str:
        """How a step of generation runs: ``compiled``, or ``layers:`` and the reason why it is not compiled."""
        reason = unsupported(self) if type(self) is Decoder else f"{type(self).__name__} is not a plain decoder"
        return f"layers: {reason}" if reason else "compiled"

    def train(self, mode: bool = True) -> Self:  # noqa: FBT001, FBT002  torch's signature
        self._stepper.clear()
        return super().train(mode)


def step(decoder: nn.Module, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:  # (B,) → (B, V), state
    """One step of any decoder: the last tokens → log-probabilities of the next ones."""
    compiled = decoder.step(tokens, state) if isinstance(decoder, Decoder) else None
    if compiled is not None:
        return compiled
    logits, state = decoder(tokens.unsqueeze(1), state)
    return torch.log_softmax(logits[:, -1], dim=-1), state


class DecoderStep:
    """The step of a decoder, as a search calls it."""

    def __init__(self, decoder: nn.Module) -> None:
        self.decoder = decoder

    def __call__(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        return step(self.decoder, tokens, state)

    def choose(
        self, tokens: Tensor, state: Any, *, end: int, suppressed: Tensor, highest: float, steps: int
    ) -> tuple[Tensor, Tensor, Any] | None:
        """The most probable tokens of several steps (see ``ChoosingStep``)."""
        if not isinstance(self.decoder, Decoder):
            return None
        return self.decoder.choose(tokens, state, Choice(end, suppressed, highest, steps))


def neural_lm(decoder: nn.Module, *, end: int, vocabulary_ids: Sequence[int]) -> NeuralLM:
    """Any decoder as the language model of a search over frames; the end token also precedes the first one."""
    module: Any = decoder.eval()
    return NeuralLM(
        DecoderStep(module),
        module.start(None, 1),
        start=end,
        end=end,
        vocabulary_ids=vocabulary_ids,
        unknown=UNKNOWN,
        decoder=module,
    )
