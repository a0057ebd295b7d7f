"""A search over tokens that writes words of a lexicon only, and scores them by a language model of words.

A prefix of tokens may be read as several sequences of words: where a word ends that is the beginning of another one,
or where words share a spelling. All readings are followed through the prefix tree of the lexicon, and the best one
counts.
"""

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from seqloom.decoding.frames.language_models import LM, BackoffModel, Doubles, Integers, NeuralLM
from seqloom.decoding.frames.lexicon import Lexicon
from seqloom.decoding.tokens.fusion import Scorer
from seqloom.decoding.tokens.lm_scorer import known_ids

History = tuple[int, ...]
"""The words before, as ids of the language model: those that the next word depends on."""

AFTER_SEPARATOR = -1
"""The root of the tree after a separator, where another word has to follow."""


class Reading(NamedTuple):
    """The best way to read a prefix that leads to a node and a history."""

    score: float  # of its complete words: weight × language + bonuses
    language: float = 0.0  # their log-probability
    words: tuple[tuple[int, int], ...] = ()  # each with the node at which it is complete


Readings = dict[tuple[int, History], Reading]
"""By node of the prefix tree and history."""


class WordModel:
    """log p(word | history): 0 without a language model."""

    start: History = ()
    end = 0

    def log_probs(self, history: History, ids: Integers) -> Doubles:  # noqa: ARG002  (N,) → (N,)
        """The log-probabilities of some words, as ids of the language model; -1: an impossible one."""
        return np.zeros(len(ids))

    def append(self, history: History, word: int) -> History:  # noqa: ARG002
        """The history after one more word."""
        return history


class NGramWords(WordModel):
    """An n-gram model; the history is its context."""

    def __init__(self, model: BackoffModel) -> None:
        self.model, self.end = model, model.end
        self.start = tuple(model.start_state(1)[0].tolist())

    def log_probs(self, history: History, ids: Integers) -> Doubles:
        contexts = np.tile(np.array(history, np.int64), (len(ids), 1))
        return np.where(ids < 0, -np.inf, self.model.log_probability(ids.clip(min=0), contexts))

    def append(self, history: History, word: int) -> History:
        return (*history, word)[1:]


class NeuralWords(WordModel):
    """A decoder; the history is all words. The distribution and the state after each history are kept."""

    def __init__(self, lm: NeuralLM) -> None:
        self.lm, self.end = lm, lm.end
        self.steps: dict[History, tuple[Doubles, Any]] = {}

    def log_probs(self, history: History, ids: Integers) -> Doubles:
        return np.where(ids < 0, -np.inf, self._step(history)[0][ids.clip(min=0)])

    def append(self, history: History, word: int) -> History:
        return (*history, word)

    @torch.no_grad()
    def _step(self, history: History) -> tuple[Doubles, Any]:
        if history not in self.steps:
            state = self._step(history[:-1])[1] if history else self.lm.state
            scores, state = self.lm.step(torch.tensor([history[-1] if history else self.lm.start]), state)
            self.steps[history] = scores[0].double().cpu().numpy(), state
        return self.steps[history]


def word_model(lm: LM | None) -> WordModel:
    """The language model as histories of words."""
    if lm is None:
        return WordModel()
    return NeuralWords(lm) if isinstance(lm, NeuralLM) else NGramWords(lm.model)


class LexiconReader:
    """Reads tokens as words of a lexicon; the best reading is the one with the highest weight × language + bonuses."""

    def __init__(
        self,
        lexicon: Lexicon,
        lm: LM | None,
        *,
        weight: float = 1.0,  # of the language model
        bonuses: Doubles | None = None,  # of each word; None: 0
    ) -> None:
        self.lexicon, self.model, self.weight = lexicon, word_model(lm), weight
        self.bonuses = np.zeros(len(lexicon)) if bonuses is None else bonuses
        self.ids = np.zeros(len(lexicon), np.int64) if lm is None else known_ids(lm)
        self._shortest = self._depth(int(np.flatnonzero(np.diff(lexicon.words_first))[0]))  # nodes are in level order
        self.start: Readings = {(0, self.model.start): Reading(0.0)}

    def extend(self, readings: Readings) -> dict[int, Readings]:
        """The readings after each token that may follow."""
        lexicon, following = self.lexicon, dict[int, Readings]()
        root = 0 if lexicon.separator is None else AFTER_SEPARATOR
        for (node, history), reading in readings.items():
            for child in range(*lexicon.first[max(node, 0) : max(node, 0) + 2].tolist()):
                options = following.setdefault(int(lexicon.tokens[child]), {})
                if lexicon.first[child] < lexicon.first[child + 1]:
                    _keep(options, (child, history), reading)
                for key, complete in self._complete(child, history, reading):
                    _keep(options, (root, key), complete)
        return {token: options for token, options in following.items() if options}

    def end(self, readings: Readings) -> Reading | None:
        """The best reading if the text ends here; None: it cannot end."""
        lexicon, ends = self.lexicon, list[Reading]()
        for (node, history), reading in readings.items():
            if node == 0:
                ends.append(self._ended(history, reading))
            elif lexicon.separator is not None and node > 0:  # a word may also be complete before the end
                first, last = lexicon.first[node : node + 2].tolist()
                for child in range(first, last):
                    if lexicon.tokens[child] == lexicon.separator:
                        complete = self._complete(child, history, reading)
                        ends += [self._ended(key, whole) for key, whole in complete]
        possible = [end for end in ends if end.score > -np.inf]
        return max(possible, key=lambda end: end.score) if possible else None

    def read(self, tokens: Sequence[int]) -> Reading | None:
        """The best words of a whole text and their score; None if it does not consist of words."""
        readings = self.start
        for token in tokens:
            readings = self.extend(readings).get(token, {})
        return self.end(readings)

    def max_gain(self, tokens: Integers) -> Doubles:
        """The most that further tokens can add: the first may complete a word, each later word has to be spelt."""
        words = np.where(tokens > 0, 1 + (tokens - 1) // self._shortest, 0)
        return words * max(0.0, float(self.bonuses.max()))

    def spans(self, reading: Reading) -> list[tuple[int, int]]:
        """The first and the last token of each word, without the separator."""
        spans, first = [], 0
        for _, node in reading.words:
            following = first + self._depth(node)
            spans.append((first, following - 1 - (self.lexicon.separator is not None)))
            first = following
        return spans

    def _depth(self, node: int) -> int:
        """The tokens that lead to a node."""
        depth = 0
        while node > 0:
            depth, node = depth + 1, int(self.lexicon.parents[node])
        return depth

    def _complete(self, node: int, history: History, reading: Reading) -> list[tuple[History, Reading]]:
        """The readings in which a word is complete at a node."""
        first, last = self.lexicon.words_first[node : node + 2].tolist()
        words = self.lexicon.words_at[first:last]
        scores = self.model.log_probs(history, self.ids[words]).tolist() if len(words) else []
        return [
            (
                self.model.append(history, int(self.ids[word])),
                Reading(
                    reading.score + self.weight * language + bonus,
                    reading.language + language,
                    (*reading.words, (word, node)),
                ),
            )
            for word, language, bonus in zip(words.tolist(), scores, self.bonuses[words].tolist(), strict=True)
            if language > -np.inf
        ]

    def _ended(self, history: History, reading: Reading) -> Reading:
        (language,) = self.model.log_probs(history, np.array([self.model.end])).tolist()
        return reading._replace(score=reading.score + self.weight * language, language=reading.language + language)


def _keep(readings: Readings, key: tuple[int, History], reading: Reading) -> None:
    if key not in readings or readings[key].score < reading.score:
        readings[key] = reading


class LexiconState(NamedTuple):
    """Where each prefix is in the lexicon."""

    places: Tensor  # (R,), index of the readings of each prefix; -1 before the start


DEAD = 0  # the place of prefixes that are no words


def lexicon_scorer(reader: LexiconReader, *, batch: int, vocab_size: int, end: int) -> Scorer:
    """The scores of words where they are complete; -inf for each token that neither continues nor completes one."""
    rows: list[Doubles] = [np.full(vocab_size, -np.inf)]
    children: list[dict[int, Readings]] = [{}]
    places: dict[Hashable, int] = {}

    def place(readings: Readings) -> int:
        """The index of readings, relative to their best score; equal ones are expanded once."""
        best = max(reading.score for reading in readings.values())
        relative = {key: reading._replace(score=reading.score - best) for key, reading in readings.items()}
        identity = frozenset((key, reading.score) for key, reading in relative.items())
        if identity not in places:
            places[identity] = len(rows)
            following, row = reader.extend(relative), np.full(vocab_size, -np.inf)
            for token, options in following.items():
                row[token] = max(reading.score for reading in options.values())
            ending = reader.end(relative)
            row[end] = -np.inf if ending is None else ending.score
            rows.append(row)
            children.append(following)
        return places[identity]

    def step(tokens: Tensor, state: LexiconState) -> tuple[Tensor, LexiconState]:
        new = []
        for at, token in zip(state.places.tolist(), tokens.tolist(), strict=True):
            readings = reader.start if at < 0 else children[at].get(token)
            new.append(place(readings) if readings else DEAD)
        scores = torch.from_numpy(np.stack([rows[at] for at in new]))
        return scores.to(tokens.device), LexiconState(torch.tensor(new))

    state = LexiconState(torch.full((batch,), -1))
    return Scorer(step, state, max_gain=reader.max_gain, restricts=True)
