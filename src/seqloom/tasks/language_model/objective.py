"""The methods of the task that depend on what a language model learns to predict."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from seqloom.data.batch import Batch, Padded
from seqloom.data.text.tokenizers import Tokenizer
from seqloom.data.text.vocabulary import END
from seqloom.decoding.tokens.sample import Sample
from seqloom.insight.explanation import Explanation
from seqloom.insight.gates import LabelledTrace
from seqloom.models.character_encoder import CharacterInput
from seqloom.models.generation import GeneratedToken
from seqloom.models.pretrained.contextual import ContextualVectors
from seqloom.tasks.language_model.settings import LanguageModelSettings, TextLine
from seqloom.tasks.task import Predictions

if TYPE_CHECKING:
    from seqloom.onnx.exported import OnnxModel
    from seqloom.standalone.interface import StandaloneModel


@dataclass(frozen=True)
class Objective(ABC):
    """What the model of a task learns to predict, and all that follows from it."""

    task: LanguageModelSettings

    @property
    def tokenizer(self) -> Tokenizer:
        return self.task.tokenizer

    @property
    def specials(self) -> tuple[str, ...]:
        """The special tokens of the vocabulary besides padding and the unknown token."""
        return (END,)

    @property
    def no_bptt_reason(self) -> str:
        """Why truncated back-propagation is impossible; empty if it is possible."""
        return ""

    def input_warning(self, text: str) -> str:
        """Why the answer to a text means little; empty: nothing to say."""
        return self.tokenizer.describe_unknown(text)

    def is_empty_input(self, text: str) -> bool:  # noqa: ARG002
        """Whether a text has nothing that could be predicted; of an empty line, that is its end."""
        return False

    @abstractmethod
    def collate(self, examples: Sequence[TextLine]) -> Batch:
        """Examples as tensors."""

    @abstractmethod
    def build_model(self) -> nn.Module:
        """A new model."""

    @abstractmethod
    def predict(self, model: Any, batch: Batch) -> Predictions:
        """One answer per row."""

    @abstractmethod
    def scored_tokens(self, example: TextLine) -> list[int]:
        """The tokens of an example whose probabilities are evaluated."""

    @abstractmethod
    def tokens(self, text: str) -> list[int]:
        """All tokens of a text that may be predicted."""

    def direction_scores(self, answers: Sequence[Any]) -> dict[str, float]:  # noqa: ARG002
        """The scores of each direction, if there are several."""
        return {}

    def text_scores(self, loss: float, examples: Sequence[TextLine]) -> dict[str, float]:  # noqa: ARG002
        """Scores of whole texts by their summed loss."""
        return {}

    @abstractmethod
    def generate(
        self, model: nn.Module, prompt: str, *, length: int, sample: Sample, alternatives: int
    ) -> Iterator[GeneratedToken]:
        """Continue the prompt token by token."""

    @abstractmethod
    def onnx_model(self, model: Any) -> "OnnxModel":
        """The model as a graph of ONNX operators."""

    def standalone_model(self, model: Any) -> "StandaloneModel":  # noqa: ARG002
        """The model as a function that is compiled with its weights."""
        from seqloom.standalone.modules import unsupported

        raise unsupported("a masked language model")

    @abstractmethod
    def embed(self, model: Any, batch: Batch) -> list[ContextualVectors]:
        """Contextual word vectors, one answer per row."""

    @abstractmethod
    def top_layer(self, model: Any, batch: Batch) -> Padded:
        """The outputs of the highest layer at the boundary token and at each token."""

    @abstractmethod
    def input_tokens(self, example: TextLine) -> list[str]:
        """The token read at each time step."""

    @abstractmethod
    def trace_gates(self, model: Any, example: TextLine) -> list[LabelledTrace]:
        """Gates and states of each recurrent layer."""

    @abstractmethod
    def explain(self, model: Any, example: TextLine, *, heads: bool) -> Explanation:
        """The prediction for one example and what led to it."""

    def _spelled(self, tokens: Padded, words: Sequence[str]) -> CharacterInput:
        """Tokens as ids, and as characters if the model reads them; ``words``: all real ones in order."""
        rows = torch.from_numpy(self.task.fitted.to_characters(words))  # (words, characters)
        spelled = rows.new_zeros(*tokens.mask.shape, rows.shape[1])
        spelled[tokens.mask] = rows
        return CharacterInput(tokens.values, spelled, tokens.mask)


def contextual_vectors(levels: Sequence[Tensor], texts: Sequence[Sequence[str]]) -> list[ContextualVectors]:
    """The vectors of the words of each row; before them, a row has the boundary token."""
    answers = []
    for row, words in enumerate(texts):
        layers = [level[row, 1 : len(words) + 1].tolist() for level in levels]
        answers.append(ContextualVectors(list(words), [list(vectors) for vectors in zip(*layers, strict=True)]))
    return answers
