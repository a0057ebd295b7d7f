"""The causal objective: predict each token from those before it; in both directions also from those after it."""

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from seqloom.data.batch import Batch, Padded, pad
from seqloom.data.text.vocabulary import END, START
from seqloom.decoding.tokens.sample import Sample
from seqloom.insight.attention_maps import all_heads, mean_of_heads, self_attention
from seqloom.insight.explanation import Explanation, TokenValues
from seqloom.insight.gates import LabelledTrace, trace_function
from seqloom.insight.token_names import text_tokens
from seqloom.layers.embedding import Embedding
from seqloom.models.decoder import Decoder
from seqloom.models.encoder import TRANSFORMER, PrenetConfig, build_stack
from seqloom.models.generation import GeneratedToken, generate_tokens
from seqloom.models.ngram.ngram_decoder import NGramDecoder
from seqloom.models.pretrained.bilm import BiLMConfig
from seqloom.models.pretrained.contextual import ContextualVectors
from seqloom.models.text_scores import BidirectionalTextScore, TextScore, perplexity_of
from seqloom.tasks.capabilities import SENTENCE_VECTORS
from seqloom.tasks.language_model.objective import Objective, contextual_vectors
from seqloom.tasks.language_model.settings import TextLine
from seqloom.tasks.task import Predictions

if TYPE_CHECKING:
    from seqloom.onnx.exported import OnnxModel
    from seqloom.standalone.interface import StandaloneModel

CONTEXT = 128
"""Default context of a Transformer in tokens: under truncated BPTT a text has no beginning that would limit it."""

EXPECTED = 4  # of the most probable tokens at each place of an explanation
SEGMENT = 4_000_000  # probabilities that are computed at once for it


class Causal(Objective):
    """Predict the next token."""

    def collate(self, examples: Sequence[TextLine]) -> Batch:
        end = [self.tokenizer.vocabulary.index(END)]
        texts = [end + self.tokenizer.encode(example.text) + end for example in examples]
        inputs = pad([np.array(text[:-1]) for text in texts])
        target = pad([np.array(text[1:]) for text in texts]).values
        return Batch(inputs, target, int(inputs.mask.sum()))

    def build_model(self) -> nn.Module:
        task, vocabulary = self.task, self.tokenizer.vocabulary
        if task.model == "ngram":
            end = vocabulary.index(END)
            return NGramDecoder(self._encode, vocabulary.tokens, order=task.order, end=end, arpa=task.arpa)
        if task.decoder.bidirectional:
            raise ValueError('task.decoder.bidirectional is true; for both directions set task.direction = "both"')
        prenet, recurrence = task.prenet, task.decoder
        if TRANSFORMER in recurrence.kinds and recurrence.options.get("attention") != "linear":
            recurrence = recurrence.model_copy(update={"options": {"context": CONTEXT, **recurrence.options}})
        if task.model == "window":
            prenet = PrenetConfig(
                layers=recurrence.layers, size=recurrence.hidden_size, window=max(task.order - 1, 1), activation="tanh"
            )
            recurrence = recurrence.model_copy(update={"layers": 0})
        layer = build_stack(prenet, recurrence, task.embedding_size, causal=True)
        embed = Embedding(len(vocabulary), task.embedding_size, dropout=task.input_dropout)
        return Decoder(
            embed,
            layer,
            tied=task.tie_embeddings,
            dropout=recurrence.dropout,
            variational=recurrence.variational_dropout,
        )

    def _encode(self, example: TextLine) -> list[int]:
        return self.tokenizer.encode(example.text)

    def predict(self, model: Any, batch: Batch) -> Predictions:
        forward, _, state = model.score_texts(batch)
        return Predictions([TextScore.of(row) for row in forward], state)

    def scored_tokens(self, example: TextLine) -> list[int]:
        return self.tokens(example.text)

    def tokens(self, text: str) -> list[int]:
        return [*self.tokenizer.encode(text), self.tokenizer.vocabulary.index(END)]

    def text_scores(self, loss: float, examples: Sequence[TextLine]) -> dict[str, float]:
        characters = sum(len(example.text) + 1 for example in examples)  # the end of a line is one
        return {"bits_per_character": loss / math.log(2) / max(characters, 1)}

    def generate(
        self, model: nn.Module, prompt: str, *, length: int, sample: Sample, alternatives: int
    ) -> Iterator[GeneratedToken]:
        return generate_tokens(model, self.tokenizer, prompt, length=length, sample=sample, alternatives=alternatives)

    def onnx_model(self, model: Any) -> "OnnxModel":
        from seqloom.tasks.language_model.onnx_model import onnx_model

        if self.task.model == "ngram":
            raise TypeError("this language model cannot be exported to ONNX: it is an n-gram model: export it as .arpa")
        return onnx_model(self, model)

    def standalone_model(self, model: Any) -> "StandaloneModel":
        from seqloom.tasks.language_model.standalone_model import standalone_model

        if self.task.model == "ngram":
            raise TypeError("this language model cannot be compiled: it is an n-gram model: export it as .arpa")
        return standalone_model(self, model)

    def embed(self, model: Any, batch: Batch) -> list[ContextualVectors]:  # noqa: ARG002
        instead = "" if self.task.model == "ngram" else SENTENCE_VECTORS
        raise TypeError(
            f'only a language model with task.direction = "both" or task.objective = "masked" gives contextual word '
            f'vectors, but its direction is "{self.task.direction}"{instead}'
        )

    def top_layer(self, model: Any, batch: Batch) -> Padded:
        if self.task.model == "ngram":
            raise TypeError('this language model cannot give sentence vectors: task.model = "ngram" has no layers')
        values, mask = batch.inputs
        return Padded(model.layer(model.embed(values), mask)[0], mask)

    def input_tokens(self, example: TextLine) -> list[str]:
        return [START, *text_tokens(self.tokenizer, example.text, [])]

    def trace_gates(self, model: nn.Module, example: TextLine) -> list[LabelledTrace]:
        batch, tokens = self.collate([example]), self.input_tokens(example)
        return trace_function(model, lambda: self.predict(model, batch), labels=lambda _: tokens)

    def explain(self, model: nn.Module, example: TextLine, *, heads: bool) -> Explanation:
        """The surprisal of each token, and the self-attention of Transformers."""
        batch = self.collate([example])
        predictions, layers, _ = self_attention(model, lambda: self.predict(model, batch))
        (prediction,) = predictions.answers
        notes: list[str] = []
        tokens = text_tokens(self.tokenizer, example.text, notes)
        surprisal = [-value / math.log(2) for value in prediction.log_probabilities]
        rows, columns = [*tokens, END], [START, *tokens]
        title = f"perplexity {prediction.perplexity:.4g}"
        return Explanation(
            task=self.task.name,
            source=example.text,
            prediction=prediction,
            headline=f"log-probability {prediction.log_probability:.4f}, {title}",
            title=title,
            attention=mean_of_heads(layers, rows, columns),
            heads=all_heads(layers, rows, columns) if heads else [],
            token_values=TokenValues("surprisal in bits", rows, surprisal, 0.0, self._expected(model, example.text)),
            notes=notes,
        )

    @torch.no_grad()
    def _expected(self, model: Any, text: str) -> list[list[tuple[str, float]]]:
        """The most probable tokens at each place of a text, and at its end; read from left to right, in segments."""
        tokens = torch.tensor([[self.tokenizer.vocabulary.index(END), *self.tokenizer.encode(text)]])
        state, expected = model.start(None, 1), list[list[tuple[str, float]]]()
        for segment in tokens.split(max(1, SEGMENT // len(self.tokenizer.vocabulary)), dim=1):
            logits, state = model(segment, state)
            top = logits[0].softmax(dim=-1).topk(min(EXPECTED, logits.shape[-1]))
            for numbers, values in zip(top.indices.tolist(), top.values.tolist(), strict=True):
                expected.append(list(zip(self.tokenizer.vocabulary.decode(numbers), values, strict=True)))
        return expected


class Bidirectional(Causal):
    """Predict the next token, and by other layers the previous one (ELMo)."""

    @property
    def no_bptt_reason(self) -> str:
        return 'task.direction is "both": the backward direction needs whole lines'

    def collate(self, examples: Sequence[TextLine]) -> Batch:
        batch = super().collate(examples)
        words = [word for example in examples for word in (END, *self.tokenizer.cased_tokens(example.text))]
        return batch._replace(inputs=self._spelled(batch.inputs, words), examples=tuple(examples))

    def build_model(self) -> nn.Module:
        fields = {name: getattr(self.task, name) for name in BiLMConfig.model_fields}
        return BiLMConfig(**fields).build(self.task.fitted)

    def predict(self, model: Any, batch: Batch) -> Predictions:
        forward, backward, state = model.score_texts(batch)
        pairs = zip(forward, backward, strict=True)
        return Predictions([BidirectionalTextScore.of_both(*pair) for pair in pairs], state)

    def direction_scores(self, answers: Sequence[BidirectionalTextScore]) -> dict[str, float]:
        return {
            "perplexity_forward": perplexity_of([value for answer in answers for value in answer.log_probabilities]),
            "perplexity_backward": perplexity_of([value for answer in answers for value in answer.backward]),
        }

    def onnx_model(self, model: Any) -> "OnnxModel":
        from seqloom.tasks.language_model.onnx_model import bidirectional_onnx_model

        return bidirectional_onnx_model(self, model)

    def standalone_model(self, model: Any) -> "StandaloneModel":  # noqa: ARG002
        raise TypeError(
            'this language model cannot be compiled: it is of task.direction = "both"; train one with '
            'task.direction = "forward", which scores and generates texts'
        )

    def embed(self, model: Any, batch: Batch) -> list[ContextualVectors]:
        texts = [self.tokenizer.cased_tokens(example.text) for example in batch.examples]
        return contextual_vectors(model.encoder.levels(batch.inputs), texts)

    def top_layer(self, model: Any, batch: Batch) -> Padded:
        return Padded(model.encoder.levels(batch.inputs)[-1], batch.inputs.mask)

    def trace_gates(self, model: nn.Module, example: TextLine) -> list[LabelledTrace]:
        batch, tokens = self.collate([example]), self.input_tokens(example)
        backwards = [*tokens[:1], *tokens[:0:-1]]  # the order in which the backward layers read

        def labels(name: str) -> list[str]:
            return backwards if name.startswith("encoder.backward_layer") else tokens

        return trace_function(model, lambda: self.predict(model, batch), labels=labels)
