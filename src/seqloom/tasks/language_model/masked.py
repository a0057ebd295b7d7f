"""The masked objective: hidden tokens are predicted from those on both sides (BERT, Devlin et al. 2019)."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import nn

from seqloom.data.batch import Batch, Padded, pad
from seqloom.data.text.tokenizers import Tokenizer
from seqloom.data.text.vocabulary import END, MASK, START
from seqloom.decoding.tokens.sample import Sample
from seqloom.insight.attention_maps import all_heads, mean_of_heads, self_attention
from seqloom.insight.explanation import Explanation, TokenValues
from seqloom.insight.gates import LabelledTrace, trace_function
from seqloom.insight.token_names import text_tokens
from seqloom.models.character_encoder import CharacterInput
from seqloom.models.generation import GeneratedToken
from seqloom.models.pretrained.contextual import ContextualVectors
from seqloom.models.pretrained.masked_lm import Fillers, MaskedLM, MaskedLMConfig
from seqloom.models.pretrained.masking import Masking, fixed_noise
from seqloom.models.text_scores import TextScore
from seqloom.tasks.language_model.objective import Objective, contextual_vectors
from seqloom.tasks.language_model.settings import TextLine
from seqloom.tasks.task import Predictions

if TYPE_CHECKING:
    from seqloom.onnx.exported import OnnxModel

LOOKALIKE = re.compile(r"[\[<({]\|?\s*mask\s*\|?[\])>}]", re.IGNORECASE)
"""What other models have in the place of [MASK], such as <mask>."""
BLANKS = re.compile(r"^[^\S\n]+")
"""Blanks at the start of a text."""
NBEST, SHOWN = 10, 5
"""Fillers of each [MASK], and how many of them are printed."""


@dataclass(frozen=True, slots=True)
class Filler:
    """A token in the place of a [MASK]."""

    token: str
    probability: float


@dataclass(frozen=True, slots=True)
class FilledText:
    """A text, and what may stand in the place of each [MASK]; each is predicted without knowing the others."""

    text: str  # with the most probable fillers
    masks: list[list[Filler]]  # the n-best of each [MASK]

    def __str__(self) -> str:
        return "\t".join([self.text, *map(_listed, self.masks)])


class EncodedText(NamedTuple):
    """The tokens of a text in which some may be hidden."""

    ids: list[int]
    tokens: list[str]  # as in the text

    @classmethod
    def of(cls, tokenizer: Tokenizer, text: str) -> "EncodedText":
        ids: list[int] = []
        tokens: list[str] = []
        for number, part in enumerate(_encoded_parts(tokenizer, text)):
            if number:
                ids.append(tokenizer.vocabulary.index(MASK))
                tokens.append(MASK)
            ids += tokenizer.encode(part)
            tokens += tokenizer.cased_tokens(part)
        return cls(ids, tokens)


def _parts(tokenizer: Tokenizer, text: str) -> list[str]:
    """The text before, between and after its [MASK]s; the space before a subword is a part of the subword."""
    *before, last = text.split(MASK)
    return [*(part.rstrip() if tokenizer.unit == "subwords" else part for part in before), last]


def _encoded_parts(tokenizer: Tokenizer, text: str) -> list[str]:
    """The same as they are read: blanks after a [MASK] separate words, and are no indentation."""
    first, *others = _parts(tokenizer, text)
    return [first, *(BLANKS.sub("", part) if tokenizer.unit == "words" else part for part in others)]


class Masked(Objective):
    """Predict hidden tokens."""

    @property
    def specials(self) -> tuple[str, ...]:
        return (END, MASK)

    def input_warning(self, text: str) -> str:
        others = [name for name in LOOKALIKE.findall(text) if name != MASK]
        if others and MASK not in text:
            return f"{others[0]} is ordinary text to this model: did you mean {MASK}?"
        return super().input_warning(text)

    def is_empty_input(self, text: str) -> bool:
        """No token can be hidden."""
        return not self.tokenizer.tokens(text)

    @property
    def no_bptt_reason(self) -> str:
        return 'task.objective is "masked": the model reads whole lines'

    @property
    def _config(self) -> MaskedLMConfig:
        return MaskedLMConfig(**{name: getattr(self.task, name) for name in MaskedLMConfig.model_fields})

    @property
    def _masking(self) -> Masking:
        return self._config.masking(self.task.fitted)

    def collate(self, examples: Sequence[TextLine]) -> Batch:
        texts = [EncodedText.of(self.tokenizer, example.text) for example in examples]
        end = self.tokenizer.vocabulary.index(END)
        tokens = pad([np.array([end, *text.ids]) for text in texts])
        inputs = self._spelled(tokens, [token for text in texts for token in (END, *text.tokens)])
        masking = self._masking
        hidden = masking.counts(masking.candidates(*tokens).sum(dim=1))
        return Batch(inputs, None, int(hidden.sum()), examples=tuple(examples))

    def build_model(self) -> nn.Module:
        return self._config.build(self.task.fitted)

    def predict(self, model: MaskedLM, batch: Batch) -> Predictions:
        """Scores of hidden tokens; for users, fillers, or the pseudo-log-likelihood of a text without [MASK]."""
        if self.task.fills_masks:
            return Predictions(self._answers(model, batch))
        return Predictions([TextScore.of(row) for row in model.score_texts(batch).forward])

    def _answers(self, model: MaskedLM, batch: Batch) -> list[FilledText | TextScore]:
        fillers = model.fill(batch.inputs, nbest=NBEST)
        filled = torch.tensor([bool(row) for row in fillers])
        scores = iter(model.pseudo_log_likelihoods(CharacterInput(*(part[~filled] for part in batch.inputs))))
        return [
            self._filled(example, row) if row else TextScore.of(next(scores))
            for example, row in zip(batch.examples, fillers, strict=True)
        ]

    def _filled(self, example: TextLine, masks: Sequence[Fillers]) -> FilledText:
        tokenizer = self.tokenizer
        first, *others = _parts(tokenizer, example.text)
        names = [
            [tokenizer.readable(token) for token in tokenizer.vocabulary.decode(fillers.tokens)] for fillers in masks
        ]
        text = "".join([first, *(f"{best[0]}{part}" for best, part in zip(names, others, strict=True))])
        pairs = zip(names, (fillers.probabilities for fillers in masks), strict=True)
        return FilledText(text.strip(), [list(map(Filler, tokens, values)) for tokens, values in pairs])

    def scored_tokens(self, example: TextLine) -> list[int]:
        text = self.collate([example]).inputs
        chosen = self._masking.hide(text.words, text.mask, fixed_noise(text.words, text.mask)).chosen
        tokens: list[int] = text.words[chosen].tolist()
        return tokens

    def tokens(self, text: str) -> list[int]:
        mask = self.tokenizer.vocabulary.index(MASK)
        return [token for token in EncodedText.of(self.tokenizer, text).ids if token != mask]

    def generate(
        self,
        model: nn.Module,  # noqa: ARG002
        prompt: str,  # noqa: ARG002
        *,
        length: int,  # noqa: ARG002
        sample: Sample,  # noqa: ARG002
        alternatives: int,  # noqa: ARG002
    ) -> Iterator[GeneratedToken]:
        raise TypeError(
            "a masked language model cannot generate text: it predicts hidden tokens, not the next one; predict fills "
            f'each {MASK} of a text, and a model with task.objective = "causal" generates'
        )

    def onnx_model(self, model: MaskedLM) -> "OnnxModel":
        from seqloom.tasks.language_model.onnx_model import masked_onnx_model

        return masked_onnx_model(self, model, nbest=NBEST)

    def embed(self, model: MaskedLM, batch: Batch) -> list[ContextualVectors]:
        texts = [EncodedText.of(self.tokenizer, example.text).tokens for example in batch.examples]
        return contextual_vectors(model.encoder.levels(batch.inputs), texts)

    def top_layer(self, model: MaskedLM, batch: Batch) -> Padded:
        return Padded(model.encoder(batch.inputs), batch.inputs.mask)

    def input_tokens(self, example: TextLine) -> list[str]:
        return [START, *self._names(example, [])]

    def _names(self, example: TextLine, notes: list[str]) -> list[str]:
        """The tokens as a person reads them."""
        first, *others = _encoded_parts(self.tokenizer, example.text)
        names = text_tokens(self.tokenizer, first, notes)
        for part in others:
            names += [MASK, *text_tokens(self.tokenizer, part, notes)]
        return names

    def trace_gates(self, model: MaskedLM, example: TextLine) -> list[LabelledTrace]:
        text, tokens = self.collate([example]).inputs, self.input_tokens(example)
        return trace_function(model, lambda: model.encoder(text), labels=lambda _: tokens)

    def explain(self, model: MaskedLM, example: TextLine, *, heads: bool) -> Explanation:
        """The fillers of each [MASK], or the surprisal of each token; the self-attention of Transformers."""
        batch = self.collate([example])
        (prediction,) = self._answers(model, batch)
        _, layers, _ = self_attention(model, lambda: model.encoder(batch.inputs))
        notes: list[str] = []
        tokens = self._names(example, notes)
        places = [START, *tokens]
        title, headline, surprisal, fillers = "", "", None, list[Filler]()
        if isinstance(prediction, FilledText):
            title = headline = prediction.text
            fillers = prediction.masks[0] if len(prediction.masks) == 1 else []
            for number, mask in enumerate(prediction.masks if not fillers else (), start=1):
                headline += f"\n{MASK} {number}: {_listed(mask)}"
        else:
            title = f"pseudo-perplexity {prediction.perplexity:.4g}"
            headline = f"pseudo-log-likelihood {prediction.log_probability:.4f}, {title}"
            values = [-value / math.log(2) for value in prediction.log_probabilities]
            surprisal = TokenValues("surprisal in bits, given all other tokens", tokens, values, 0.0)
        return Explanation(
            task=self.task.name,
            source=example.text,
            prediction=prediction,
            headline=headline,
            title=title,
            attention=mean_of_heads(layers, places, places),
            heads=all_heads(layers, places, places) if heads else [],
            token_values=surprisal,
            label_probabilities={filler.token.strip() or filler.token: filler.probability for filler in fillers},
            label_kind="token",
            label_count=len(self.tokenizer.vocabulary),
            notes=notes,
        )


def _listed(fillers: Sequence[Filler]) -> str:
    """The best fillers with their probabilities."""
    return ", ".join(f"{filler.token.strip() or filler.token} {filler.probability:.3f}" for filler in fillers[:SHOWN])
