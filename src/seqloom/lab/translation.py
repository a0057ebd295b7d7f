"""A made-up language pair for experiments, small encoder-decoders that translate it, and the options they share.

Each word of the source has one translation, and a pair of words changes places wherever its first word is one of a
given half of the vocabulary, as adjectives and nouns do between English and French. Sentences are random, so nothing
can be guessed: a translation has to come from the source.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from seqloom.data.batch import Batch, pad
from seqloom.decoding.tokens.greedy import Greedy
from seqloom.decoding.tokens.search import Search
from seqloom.lab.experiment import Experiment
from seqloom.lab.network import fit
from seqloom.layers.build import recurrent
from seqloom.layers.embedding import Embedding
from seqloom.metrics.text import edit_distance
from seqloom.models.encoder import DecoderConfig, Encoder
from seqloom.models.encoder_decoder import AttentionConfig, EncoderDecoder, build_encoder_decoder
from seqloom.models.generation import SUPPRESSED, generate, teacher_forcing_loss
from seqloom.models.scheduled_sampling import ScheduledSampling
from seqloom.tasks.task import Loss
from seqloom.training.config import TrainConfig

END = 2
"""The end of a sentence; 0 and 1 are padding and unknown words."""
FIRST_WORD = 3

AttentionKind = Literal["none", "soft", "hard"]
Pair = tuple[list[int], list[int]]
"""A sentence and its translation, without the end."""


@dataclass(frozen=True)
class Language:
    """A pair of languages with as many words each."""

    words: int
    reordering: bool = True

    @property
    def size(self) -> int:
        """Entries of a vocabulary: padding, unknown, end, words."""
        return FIRST_WORD + self.words

    def changes_places(self, word: int) -> bool:
        """Whether the translation of a word follows that of the word after it: those of the upper half do."""
        return self.reordering and word >= FIRST_WORD + self.words // 2

    def alignment(self, source: Sequence[int]) -> list[int]:
        """The place in the source of each word of its translation."""
        places = list(range(len(source)))
        at = 0
        while at + 1 < len(places):
            if self.changes_places(source[at]):
                places[at], places[at + 1] = places[at + 1], places[at]
                at += 1
            at += 1
        return places

    def translate(self, source: Sequence[int]) -> list[int]:
        """Word by word, the next word of the vocabulary, in the order of ``alignment``."""
        words = [source[place] for place in self.alignment(source)]
        return [FIRST_WORD + (word - FIRST_WORD + 1) % self.words for word in words]

    def pairs(self, count: int, *, lengths: Sequence[int], draw: torch.Generator) -> list[Pair]:
        """Random sentences, each of one of the lengths."""
        chosen = torch.randint(len(lengths), (count,), generator=draw).tolist()
        sources = [torch.randint(FIRST_WORD, self.size, (lengths[index],), generator=draw).tolist() for index in chosen]
        return [(source, self.translate(source)) for source in sources]


def collate(pairs: Sequence[Pair], *, reverse: bool = False) -> Batch:
    """Padded sentences with their ends; ``reverse``: the source is read backwards."""
    inputs = pad([[*(source[::-1] if reverse else source), END] for source, _ in pairs])
    target = pad([[*words, END] for _, words in pairs])
    return Batch(inputs, target, items=int(target.mask.sum()))


def build_translator(
    language: Language,
    *,
    hidden_size: int,
    attention: AttentionKind = "none",
    bidirectional: bool = False,
    scheduled_sampling: ScheduledSampling | None = None,
) -> EncoderDecoder:
    """An LSTM encoder and decoder of equal width; the last state of the encoder starts the decoder."""
    width = hidden_size // 2 if bidirectional else hidden_size
    layer = recurrent("lstm", hidden_size, width, bidirectional=bidirectional)
    return build_encoder_decoder(
        Encoder(Embedding(language.size, hidden_size), layer),
        Embedding(language.size, hidden_size),
        DecoderConfig(hidden_size=hidden_size),
        attention=AttentionConfig(style="none") if attention == "none" else AttentionConfig(type=attention),
        encoder_layer=layer,
        bridge="linear",
        tied=False,
        scheduled_sampling=scheduled_sampling or ScheduledSampling(),
    )


def translation_loss(model: Any, batch: Batch) -> Loss:
    """Teacher forcing of an encoder-decoder."""
    return Loss(teacher_forcing_loss(model, model.start(*batch.inputs), batch.target, end=END), batch.items)


class TranslationExperiment(Experiment):
    """An experiment with encoder-decoders of a made-up language pair: sizes, training and new sentences."""

    topic: ClassVar[str] = "Translation and search"

    words: int = Field(20, ge=2, description="Words of each language.")
    hidden_size: int = Field(64, ge=2, multiple_of=2, description="Units of encoder and decoder.")
    batch_size: int = Field(32, ge=1, description="Sentences per update.")
    updates: int = Field(800, ge=1, description="Updates of each training.")
    learning_rate: float = Field(1e-2, gt=0, description="Peak learning rate of Adam; it falls along a cosine.")
    sentences: int = Field(100, ge=1, description="New sentences of each kind that are translated.")

    @property
    def language(self) -> Language:
        return Language(self.words)

    def train_translator(
        self,
        seed: int,
        *,
        lengths: Sequence[int],  # of the training sentences
        attention: AttentionKind = "none",
        bidirectional: bool = False,
        reverse: bool = False,  # read the source backwards
        scheduled_sampling: ScheduledSampling | None = None,
        change: Callable[[list[Pair], torch.Generator], list[Pair]] | None = None,  # of the training sentences
    ) -> tuple[EncoderDecoder, torch.Generator]:
        """A trained model, and the random numbers that drew its sentences, to draw new ones."""
        torch.manual_seed(seed)
        model = build_translator(
            self.language,
            hidden_size=self.hidden_size,
            attention=attention,
            bidirectional=bidirectional,
            scheduled_sampling=scheduled_sampling,
        )
        draw = torch.Generator().manual_seed(seed)

        def sample() -> Batch:
            pairs = self.language.pairs(self.batch_size, lengths=lengths, draw=draw)
            return collate(change(pairs, draw) if change else pairs, reverse=reverse)

        settings = TrainConfig(updates=self.updates, learning_rate=self.learning_rate)
        fit(model, sample, settings, loss=translation_loss)
        model.eval()
        return model, draw

    def new_pairs(self, length: int, draw: torch.Generator) -> list[Pair]:
        """New sentences of one length."""
        return self.language.pairs(self.sentences, lengths=[length], draw=draw)


@torch.no_grad()
def translate(
    model: EncoderDecoder,
    pairs: Sequence[Pair],
    *,
    reverse: bool = False,
    search: Search | None = None,  # None: greedy
) -> list[list[int]]:
    """The model's translations, at most half as long again as the source."""
    inputs, mask = collate(pairs, reverse=reverse).inputs
    limits: Tensor = mask.sum(dim=1) * 3 // 2 + 1
    hypotheses = generate(
        model.decoder, model.encoder(inputs, mask), search or Greedy(), end=END, lengths=limits, suppress=SUPPRESSED
    )
    return [nbest[0].tokens for nbest in hypotheses]


def word_accuracy(outputs: Sequence[Sequence[int]], pairs: Sequence[Pair]) -> float:
    """1 - the edit distance between outputs and translations, divided by the words of the translations; at least 0."""
    errors = sum(edit_distance(list(output), target) for output, (_, target) in zip(outputs, pairs, strict=True))
    return max(0.0, 1 - errors / sum(len(target) for _, target in pairs))


def right_by_position(outputs: Sequence[Sequence[int]], pairs: Sequence[Pair], length: int) -> tuple[float, ...]:
    """The share of outputs with the right word at each position."""
    return tuple(
        sum(len(output) > at and output[at] == target[at] for output, (_, target) in zip(outputs, pairs, strict=True))
        / len(pairs)
        for at in range(length)
    )
