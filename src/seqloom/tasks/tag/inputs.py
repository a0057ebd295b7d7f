"""Words and frames as the inputs of a tagger."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from seqloom.data.batch import Padded, pad
from seqloom.data.feature_statistics import RunningMoments
from seqloom.data.readers.channel_names import match_channels
from seqloom.data.readers.sentences import Sentence, TaggedSequence
from seqloom.data.readers.text_files import DataError, pluralize
from seqloom.data.readers.vectors import Values, VectorSequence
from seqloom.data.text.vocabulary import build_vocabulary, vocabulary_from_counts
from seqloom.models.character_encoder import (
    MAX_CHARACTERS,
    CharacterEncoder,
    CharacterInput,
    to_characters,
)
from seqloom.models.hmm import RARE, HMMInput, suffixes
from seqloom.models.pretrained.combined import CombinedInput, FeatureEmbedding
from seqloom.models.signals.encoders import FrameImages
from seqloom.models.signals.image_encoder import ImageEncoder
from seqloom.models.tagger import FrameEmbedding, VideoEmbedding, WordEmbedding
from seqloom.tasks.tag.settings import Learned, TagSettings

MANY_LABELS = 100
LABELS_PER_WORD = 5  # different labels for each different word: a letter has fewer


def swap_problem(labels: Counter[str], words: Counter[str]) -> str:
    """Why labels and words seem to be swapped; empty if they do not."""
    if not words or len(labels) < max(MANY_LABELS, LABELS_PER_WORD * len(words)):
        return ""
    shown = ", ".join(repr(word[:30]) for word, _ in words.most_common(3))
    return (
        f"found {len(labels):,} different labels, but only {pluralize(len(words), 'different word')} ({shown}): words "
        "and labels seem to be swapped (task.word_column, task.label_column)"
    )


def lookup_form(settings: TagSettings, word: str) -> str:
    """The form in which a word is looked up in the vocabulary."""
    return word.lower() if settings.words.lowercase and settings.model == "neural" else word


def checked_features(settings: TagSettings, sentence: Sentence) -> tuple[tuple[str, ...], ...]:
    """The values of the columns that the model reads beside the words."""
    if len(sentence.features) != len(settings.feature_columns):
        columns = ", ".join(map(repr, settings.feature_columns))
        raise DataError(
            sentence.location,
            f"found words without the columns of task.feature_columns ({columns}), which the model reads; expected "
            "CoNLL or CoNLL-U with these columns",
        )
    return sentence.features


def fit_words(
    settings: TagSettings, common: dict[str, Any], surface: Counter[str], features: Sequence[Counter[str]]
) -> Learned:
    """The vocabularies of the words of the training data, and of the columns beside them, given with their counts."""
    words: Counter[str] = Counter()
    characters: Counter[str] = Counter()
    for word, times in surface.items():
        words[lookup_form(settings, word)] += times
        characters.update(dict.fromkeys(word, times))
    vocabulary = vocabulary_from_counts(words, min_count=settings.words.min_count)
    rare = (suffix for word, times in surface.items() if times <= RARE for suffix in suffixes(word))
    return Learned(
        **common,
        words=vocabulary,
        counts=tuple(words[token] for token in vocabulary.tokens),
        characters=vocabulary_from_counts(characters, size=1 << 15),
        features=tuple(map(vocabulary_from_counts, features)),
        suffixes=build_vocabulary(rare, min_count=2) if settings.model == "hmm" else None,
        size=settings.words.embedding_size,
        vectors=settings.pretrained.load(surface, settings.pretrained.language("words")),
    )


def collate_words(
    settings: TagSettings, learned: Learned, examples: Sequence[TaggedSequence]
) -> CharacterInput | HMMInput | CombinedInput:
    """Sentences as ids of words, characters or suffixes, with pretrained vectors if there are any."""
    sentences = [example for example in examples if isinstance(example, Sentence)]
    if len(sentences) < len(examples):
        raise DataError(examples[0].location, "found vectors; the model was trained on words")
    assert learned.words is not None  # noqa: S101  fitted to words
    assert learned.characters is not None  # noqa: S101
    rows = [learned.words.encode(lookup_form(settings, word) for word in sentence.words) for sentence in sentences]
    words, mask = pad(rows, dtype=np.int64)
    flat = [word for sentence in sentences for word in sentence.words]
    if learned.suffixes is not None:
        ids, known = torch.zeros_like(words), learned.suffixes.ids
        longest = {
            word: next((known[suffix] for suffix in suffixes(word) if known.get(suffix)), 1) for word in set(flat)
        }
        ids[mask] = torch.tensor([longest[word] for word in flat], dtype=torch.long)
        return HMMInput(words, ids, mask)
    characters = torch.zeros(*words.shape, MAX_CHARACTERS if settings.characters.layers else 0, dtype=torch.int16)
    if settings.characters.layers:
        characters[mask] = torch.from_numpy(to_characters(flat, learned.characters.tokens))
    inputs = CharacterInput(words, characters, mask)
    if learned.vectors is None and not learned.features:
        return inputs
    further = [
        pad([vocabulary.encode(checked_features(settings, sentence)[column]) for sentence in sentences], dtype=np.int64)
        for column, vocabulary in enumerate(learned.features)
    ]
    vectors = () if learned.vectors is None else learned.vectors.collate([sentence.words for sentence in sentences])
    return CombinedInput(inputs, (*vectors, *(ids for ids, _ in further)), mask)


class FrameStatistics:
    """The scale of the frames of the training data, one sequence after the other; all have to be of one kind."""

    def __init__(self) -> None:
        self.moments = RunningMoments()
        self.names: tuple[str, ...] = ()
        self.video = False

    def add(self, example: VectorSequence) -> None:
        if not self.moments.count:
            self.names, self.video = example.channel_names, is_video(example)
        elif is_video(example) is not self.video:
            raise DataError(example.location, "found both vectors and videos; expected one of them")
        values = match_channels(example.location, example.values, example.channel_names, self.names)
        size = values.shape[-1]
        if self.moments.count and size != self.moments.size:
            raise DataError(
                example.location, f"expected {self.moments.size} features as in the first sequence, found {size}"
            )
        self.moments.add(values.reshape(-1, size))

    def learned(self) -> dict[str, Any]:
        """What the model has to know of the frames."""
        moments = self.moments
        scale = {"size": moments.size, "mean": moments.means(), "deviation": moments.deviations()}
        return {**scale, "channel_names": self.names, "video": self.video}


def collate_frames(learned: Learned, examples: Sequence[TaggedSequence]) -> Padded:
    """Standardised vectors."""
    rows = [
        (frame_values(learned, example) - np.array(learned.mean)) / np.array(learned.deviation) for example in examples
    ]
    return pad(rows, dtype=np.float32)


def frame_values(learned: Learned, example: TaggedSequence) -> Values:
    """The vectors of an example, with their features in the order of the training data."""
    if isinstance(example, Sentence):
        raise DataError(example.location, f"expected frames of {learned.size} features, found words")
    if is_video(example) is not learned.video:
        kinds = ("a video", "vectors") if learned.video else ("vectors", "a video")
        raise DataError(example.location, "expected {} as in the training data, found {}".format(*kinds))
    values = match_channels(example.location, example.values, example.channel_names, learned.channel_names)
    if values.shape[-1] != learned.size:
        raise DataError(
            example.location, f"expected frames of {learned.size} features, found {values.shape[-1]} features"
        )
    return values


def is_video(example: VectorSequence) -> bool:
    """Whether the frames of an example are images."""
    return example.values.ndim == 4


def build_embedding(settings: TagSettings, learned: Learned) -> tuple[nn.Module, int]:
    """The input layer and the width of its output."""
    if learned.video:
        images = FrameImages(ImageEncoder(settings.image_encoder, settings.image_size))
        return VideoEmbedding(images, dropout=settings.input_dropout), images.size
    if learned.words is None:
        return FrameEmbedding(learned.size, dropout=settings.input_dropout), learned.size
    with_characters = settings.characters.layers and learned.characters is not None
    embedding = WordEmbedding(
        torch.tensor(learned.counts),
        0 if settings.pretrained.replace_embeddings else learned.size,
        characters=CharacterEncoder(len(learned.characters or ()), settings.characters) if with_characters else None,
        unknown=settings.words.unknown_dropout,
        dropout=settings.input_dropout,
    )
    features = [
        FeatureEmbedding(len(vocabulary), settings.feature_size, dropout=settings.input_dropout)
        for vocabulary in learned.features
    ]
    return settings.pretrained.build_embedding(
        learned.vectors, embedding if embedding.size else None, size=embedding.size, features=features
    )


def find_word(words: Sequence[str], chosen: str | int) -> int:
    """The index of a word that is given as text, or by its position from 1."""
    if isinstance(chosen, str):
        matches = [index for index, word in enumerate(words) if word == chosen]
        matches = matches or [index for index, word in enumerate(words) if word.lower() == chosen.lower()]
        if len(matches) > 1:
            places = ", ".join(str(index + 1) for index in matches)
            raise ValueError(f"word: {chosen!r} occurs {len(matches)} times; give one of its positions: {places}")
        if matches:
            return matches[0]
    if str(chosen).isdecimal() and 1 <= int(chosen) <= len(words):
        return int(chosen) - 1
    raise ValueError(f"word: {chosen!r} is neither a word of the input nor a position from 1 to {len(words)}")


def input_words(example: TaggedSequence) -> tuple[str, ...]:
    """The words of a sentence; none for vectors."""
    return example.words if isinstance(example, Sentence) else ()
