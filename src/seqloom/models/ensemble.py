"""Ensembles: several models that predict together, most of them with the mean of their probabilities."""

import math
from collections.abc import Sequence
from typing import Any, NoReturn, Self, cast

import torch
from torch import Tensor, nn

from seqloom.data.batch import Batch, Padded
from seqloom.decoding.tokens.search import Step
from seqloom.layers.layer import Memory
from seqloom.models.crf import CRF
from seqloom.models.decoder import Decoder, DecoderStep, TokenScores
from seqloom.models.encoder_decoder import EncoderDecoder
from seqloom.models.forecaster import Forecaster, ForecastInputs, ForecastOutput
from seqloom.models.joint_ngram.joint_ngram import LatticeModel
from seqloom.models.tagger import SoftmaxOutput, Tagger
from seqloom.models.transcription.joint_transcriber import JointTranscriber
from seqloom.models.transcription.transcriber import CTCModel, FrameTranscriber


def ensemble_step(steps: Sequence[Step], weights: Sequence[float] | None = None) -> Step:
    """The weighted mean of the steps' probabilities; its state is the tuple of their states."""
    weights = [1.0] * len(steps) if weights is None else list(weights)
    if not steps or len(weights) != len(steps):
        raise ValueError(
            f"an ensemble needs one weight per model, found {len(steps)} models and {len(weights)} weights"
        )
    if not all(0 < weight < math.inf for weight in weights):
        raise ValueError(f"the weights of an ensemble must be positive numbers, found {weights}")
    log_weights = [math.log(weight / math.fsum(weights)) for weight in weights]

    def average(tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        if not isinstance(state, tuple) or len(state) != len(steps):
            raise ValueError(f"the state of an ensemble must be a tuple of {len(steps)} states, one for each model")
        results = [step(tokens, part) for step, part in zip(steps, state, strict=True)]
        if len({scores.shape for scores, _ in results}) > 1:
            sizes = ", ".join(str(scores.shape[-1]) for scores, _ in results)
            raise ValueError(f"the models of an ensemble must share a vocabulary, found vocabularies of {sizes} tokens")
        weighted = [scores + weight for (scores, _), weight in zip(results, log_weights, strict=True)]
        return torch.stack(weighted).logsumexp(dim=0), tuple(part for _, part in results)

    return average


class _AveragedSteps(nn.Module):
    """Models whose decoders are averaged at each step; the state is the tuple of their states."""

    def __init__(self, models: Sequence[nn.Module], decoders: Sequence[nn.Module]) -> None:
        super().__init__()
        self.models = nn.ModuleList(models)
        self._step = ensemble_step([DecoderStep(decoder) for decoder in decoders])

    def forward(
        self,
        tokens: Tensor,  # (B, T)
        state: tuple[Any, ...],
        *,
        mask: Tensor | None = None,  # noqa: ARG002  a decoder's signature; outputs at padding are not used
    ) -> tuple[Tensor, tuple[Any, ...]]:  # log-probabilities (B, T, V), states
        log_probs = []
        for column in tokens.unbind(1):
            scores, state = self._step(column, state)
            log_probs.append(scores)
        return torch.stack(log_probs, dim=1), state


class Ensemble(_AveragedSteps):
    """Encoder-decoders with the same vocabulary, used as one for prediction, not for training.

    It is its own decoder; its memory holds the memories of all models, and its state their states.
    """

    def __init__(self, models: Sequence[nn.Module]) -> None:
        for model in models:
            if not isinstance(model, EncoderDecoder | LatticeModel):
                raise TypeError(f"an ensemble needs encoder-decoder models, found {type(model).__name__}")
        decoders = [cast(EncoderDecoder, model).decoder for model in models]
        super().__init__(models, decoders)
        self._decoders = decoders

    @property
    def decoder(self) -> Self:
        return self

    @property
    def single_decoder(self) -> Decoder | None:
        """None: there are several decoders."""
        return None

    def align(self, inputs: Any, target: Sequence[int]) -> None:  # noqa: ARG002
        """None: see those of its models."""
        return

    def encoder(self, inputs: Any, mask: Tensor) -> Memory:
        memories = tuple(cast(EncoderDecoder, model).encoder(inputs, mask) for model in self.models)
        return Memory(memories[0].values, memories[0].mask, memories)

    def start(self, memory: Memory, batch: int, *, coverage: bool = False) -> tuple[Any, ...]:
        pairs = zip(self._decoders, memory.state, strict=True)
        return tuple(decoder.start(part, batch, coverage=coverage) for decoder, part in pairs)

    features = _AveragedSteps.forward
    """The log-probabilities themselves: there is no softmax after them."""

    def score_tokens(
        self,
        features: Tensor,  # (N, V)
        target: Tensor,  # (N,)
    ) -> tuple[Tensor, Tensor]:  # (N,), (N,)
        """The log-probability of each target, and whether it is the most probable token."""
        return features.gather(1, target.unsqueeze(1)).squeeze(1), features.argmax(dim=1) == target


class LanguageModelEnsemble(_AveragedSteps):
    """Language models with the same vocabulary, neural ones or n-grams: the mean of their probabilities of a token."""

    def __init__(self, models: Sequence[nn.Module]) -> None:
        super().__init__(models, models)

    def start(self, memory: None, batch: int) -> tuple[Any, ...]:
        return tuple(cast(Decoder, model).start(memory, batch) for model in self.models)

    def score_texts(self, batch: Batch) -> TokenScores:
        """The log-probabilities of the tokens of each row."""
        states = batch.state or (None,) * len(self.models)
        pairs = zip(self.models, states, strict=True)
        scores = [cast(Decoder, model).score_texts(batch._replace(state=state)) for model, state in pairs]
        rows = zip(*(each.forward for each in scores), strict=True)
        means = [torch.tensor(row, dtype=torch.float64).logsumexp(dim=0) - math.log(len(scores)) for row in rows]
        return TokenScores([mean.tolist() for mean in means], state=tuple(each.state for each in scores))


class TranscriberEnsemble(CTCModel):
    """CTC transcribers with the same vocabulary and frame rate, used as one for prediction.

    Each of them places tokens in frames of its own, so that the probabilities of texts are averaged, not those of
    frames (minimum Bayes risk decoding, in tasks/transcribe).
    """

    def __init__(self, models: Sequence[FrameTranscriber]) -> None:
        super().__init__()
        self.models = nn.ModuleList(models)
        self._members = models

    def encoder(self, values: Tensor, mask: Tensor) -> Memory:
        memories = tuple(member.encoder(values, mask) for member in self._members)
        return Memory(memories[0].values, memories[0].mask, memories)

    def member_logits(self, memory: Memory) -> list[Tensor]:  # each (B, T', V)
        return [member.frame_logits(part) for member, part in zip(self._members, memory.state, strict=True)]


class JointTranscriberEnsemble(TranscriberEnsemble):
    """Transcribers with CTC and attention: the mean of their probabilities at each token.

    In a search with the decoder, the CTC score of a prefix is the mean of its log-probabilities.
    """

    def __init__(self, models: Sequence[JointTranscriber]) -> None:
        super().__init__(models)
        self.decoder = Ensemble(models)


class _SeveralEncoders(nn.Module):
    """Models whose outputs are averaged, so that there is no single vector of an input."""

    @property
    def encoder(self) -> NoReturn:
        raise ValueError(
            "an ensemble has several encoders: explain an answer, or compute vectors, with one of its models"
        )


class ClassifierEnsemble(_SeveralEncoders):
    """Classifiers with the same labels: the logarithm of their mean probability; of numbers, the mean."""

    def __init__(self, models: Sequence[nn.Module], *, numbers: bool) -> None:
        super().__init__()
        self.models = nn.ModuleList(models)
        self.numbers = numbers

    def forward(self, *inputs: Any) -> Tensor:  # (B, labels)
        outputs = [model(*inputs) for model in self.models]
        return torch.stack(outputs).mean(dim=0) if self.numbers else _mean_probability(outputs)


class TaggerEnsemble(_SeveralEncoders):
    """Taggers with the same labels and the same kind of output, used as one for prediction.

    Of linear outputs, the probabilities of each label are averaged; of CRFs, the scores, which gives the geometric mean
    of their probabilities of whole label sequences; of numbers, the mean.
    """

    def __init__(self, models: Sequence[nn.Module]) -> None:
        super().__init__()
        self.models = nn.ModuleList(models)
        outputs = [model.output if isinstance(model, Tagger) else None for model in models]
        if len({type(output) for output in outputs}) > 1:
            raise ValueError("the taggers of an ensemble must all have a CRF, or all a linear output")
        self.output: CRF | SoftmaxOutput | None = _mean_chain(outputs)

    def forward(self, inputs: Any, state: Any = None) -> tuple[Tensor, tuple[Any, ...]]:  # (B, T, L), states
        states = state or (None,) * len(self.models)
        results = [model(inputs, part) for model, part in zip(self.models, states, strict=True)]
        scores, following = zip(*results, strict=True)
        averaged_as_probabilities = isinstance(self.output, SoftmaxOutput)
        return _mean_probability(scores) if averaged_as_probabilities else torch.stack(scores).mean(dim=0), following

    @property
    def _labels(self) -> CRF | SoftmaxOutput:
        if self.output is None:
            raise TypeError("the taggers of this ensemble predict numbers, not labels")
        return self.output

    def decode(self, emissions: Tensor, mask: Tensor) -> Tensor:  # (B, T)
        """The best labels."""
        return self._labels.decode(emissions, mask)

    def marginals(self, emissions: Tensor, mask: Tensor) -> Tensor:  # (B, T, L)
        """The probability of each label at each position."""
        return self._labels.marginals(emissions, mask)


class ForecasterEnsemble(_SeveralEncoders):
    """Forecasters of the same columns and steps: the mean of their forecasts, and of each quantile.

    The mean of quantiles (Vincent 1912) keeps the shape of intervals; a mixture of distributions would be wider. Of
    binary frames, probabilities are averaged.
    """

    def __init__(self, models: Sequence[nn.Module], *, binary: bool) -> None:
        super().__init__()
        self.models = nn.ModuleList(models)
        self.binary = binary

    def forward(
        self, inputs: Padded | ForecastInputs, state: tuple[Any, ...] | None = None
    ) -> tuple[Tensor, tuple[Any, ...]]:  # (B, T or 1, horizon, targets), states
        states = state or (None,) * len(self.models)
        points, following = zip(
            *(model(inputs, part) for model, part in zip(self.models, states, strict=True)), strict=True
        )
        mean = torch.stack([point.sigmoid() if self.binary else point for point in points]).mean(dim=0)
        return mean.logit() if self.binary else mean, following

    def forecast(
        self, inputs: Padded | ForecastInputs, state: tuple[Any, ...] | None = None
    ) -> tuple[ForecastOutput, tuple[Any, ...]]:
        """The mean point forecast and the mean quantiles."""
        states = state or (None,) * len(self.models)
        results = [
            cast(Forecaster, model).forecast(inputs, part) for model, part in zip(self.models, states, strict=True)
        ]
        points, quantiles = zip(*(output for output, _ in results), strict=True)
        mean = ForecastOutput(torch.stack(points).mean(dim=0), torch.stack(quantiles).mean(dim=0))
        return mean, tuple(part for _, part in results)


@torch.no_grad()
def _mean_chain(outputs: Sequence[CRF | SoftmaxOutput | None]) -> CRF | SoftmaxOutput | None:
    """The output of an ensemble; of CRFs, one with the mean of their scores and the constraints of the first."""
    first = outputs[0]
    if not isinstance(first, CRF):
        return first
    chains = [output.chain for output in outputs if isinstance(output, CRF)]
    mean = CRF(len(first.start), allowed=first.allowed, strict=first.strict).to(first.start)
    for parameter, *scores in zip(mean.chain, *chains, strict=True):
        parameter.copy_(torch.stack(scores).mean(dim=0))
    return mean


def _mean_probability(logits: Sequence[Tensor]) -> Tensor:  # (..., V)
    """The logarithm of the mean of softmax(logits)."""
    return torch.stack([part.log_softmax(dim=-1) for part in logits]).logsumexp(dim=0) - math.log(len(logits))
