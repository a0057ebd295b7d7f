"""An n-gram model with the interface of a decoder: counted, not trained."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from seqloom.data.batch import Batch
from seqloom.data.readers.text_files import DataError, resolve
from seqloom.decoding.frames.language_models import NGramLM
from seqloom.layers.embedding import PADDING, UNKNOWN
from seqloom.models.decoder import TokenScores
from seqloom.models.ngram.arpa import ArpaVocabulary, read_arpa, to_arpa_words, write_arpa
from seqloom.models.ngram.kneser_ney import estimate
from seqloom.models.ngram.ngram import NGram
from seqloom.training.self_trained import CountingModel


class NGramDecoder(CountingModel):
    """An n-gram language model with the interface of ``Decoder``; it has no parameters and no gradient."""

    class State(NamedTuple):
        words: Tensor  # (B, order - 1), the last words; -1 before the first

    def __init__(
        self,
        encode: Callable[[Any], Sequence[int]],  # token ids of an example
        symbols: Sequence[str],  # the vocabulary; 0, the padding, stands for the start of a text
        *,
        order: int,
        end: int,
        arpa: str = "",  # file to read the model from instead of estimating it
    ) -> None:
        super().__init__()
        self.encode, self.symbols, self.order, self.end, self.arpa = encode, symbols, order, end, arpa
        self.ngram: NGram | None = None

    @property
    def counted(self) -> NGram:
        if self.ngram is None:
            raise ValueError("the n-gram model has not been estimated yet")
        return self.ngram

    def count(self, examples: Iterable[Any]) -> None:
        """Estimate the model in one pass over the examples, or read it from the ARPA file."""
        if self.arpa:
            self.ngram = self._read(resolve(self.arpa))
            return
        texts = (self.encode(example) for example in examples)
        self.ngram = estimate(texts, order=self.order, start=PADDING, end=self.end, vocabulary=len(self.symbols))

    def _read(self, path: Path) -> NGram:
        model, words = read_arpa(path)
        vocabulary = ArpaVocabulary.from_words(words)
        if list(vocabulary.names[1:]) != to_arpa_words(self.symbols[1:]):
            raise DataError(str(path), "the words of the file have changed since training")
        return vocabulary.renumber(model)

    def write(self, path: Path) -> None:
        """Write the model as an ARPA file."""
        write_arpa(self.counted, self.symbols, path)

    def score_texts(self, batch: Batch) -> TokenScores:
        """The log-probabilities of the tokens of each row, whose context may begin in the batch before."""
        tokens, mask = batch.inputs
        words = (batch.state or self.start(None, len(tokens))).words.numpy()
        contexts = []
        for step in tokens.T.numpy():
            words = self.counted.advance(words, step)
            contexts.append(words)
        real = mask.numpy()
        values = self.counted.log_probability(batch.target.numpy()[real], np.stack(contexts, axis=1)[real])
        rows = np.split(values, np.cumsum(real.sum(axis=1))[:-1])
        return TokenScores([row.tolist() for row in rows], state=self.State(torch.from_numpy(words)))

    def search_lm(self, *, end: int, vocabulary_ids: Sequence[int]) -> NGramLM:  # noqa: ARG002  known from the counts
        """The tables themselves as the language model of a search over frames."""
        return NGramLM(self.counted, vocabulary_ids=vocabulary_ids, unknown=UNKNOWN)

    def start(self, memory: None, batch: int) -> State:  # noqa: ARG002  a language model has no memory
        return self.State(torch.from_numpy(self.counted.start_state(batch)))

    def forward(
        self,
        tokens: Tensor,  # (B, T)
        state: State,
        *,
        mask: Tensor | None = None,  # noqa: ARG002  a decoder's signature
    ) -> tuple[Tensor, State]:  # log-probabilities (B, T, V), state
        words, log_probs = state.words.numpy(), []
        for step in tokens.T:
            words = self.counted.advance(words, step.numpy())
            log_probs.append(torch.from_numpy(self.counted.next(words)))
        return torch.stack(log_probs, dim=1), self.State(torch.from_numpy(words))

    def state_dict(self, **options: Any) -> dict[str, Any]:  # type: ignore[override]  # noqa: ARG002
        """The tables, whose sizes are known only after estimation."""
        return self.ngram.tensors() if self.ngram else {}

    def load_state_dict(self, state_dict: Mapping[str, Any], **options: Any) -> None:  # type: ignore[override]  # noqa: ARG002
        self.ngram = NGram.from_tensors(state_dict)
