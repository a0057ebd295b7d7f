"""Search with a lexicon and a language model against all token sequences and all ways to read them as words."""

import itertools
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import Field
from tests.decoding.frames.every_path import spellings
from tests.decoding.tokens.reference import Toy
from torch import Tensor, nn

from seqloom.decoding.frames.frame_search import Guide
from seqloom.decoding.frames.language_models import NeuralLM, NGramLM
from seqloom.decoding.frames.lexicon import Lexicon
from seqloom.decoding.tokens.beam import Beam
from seqloom.decoding.tokens.greedy import Greedy
from seqloom.decoding.tokens.search import Hypothesis, Search
from seqloom.decoding.tokens.search_record import NodeStatus, SearchRecord
from seqloom.layers.layer import Memory
from seqloom.models.guided_generation import GuidedHypothesis, generate_guided
from seqloom.models.ngram.kneser_ney import estimate
from seqloom.models.ngram.ngram import NGram

END, SIZE, LENGTH, WEIGHT = 1, 5, 4, 0.6
SEPARATOR = 4
WORDS = [(0, (2,)), (1, (2, 3)), (2, (3,)), (3, (2, 3)), (0, (3, 3))]  # prefixes, homophones, two spellings
FULL = Beam(size=500, nbest=500, length_penalty="none")


class RecordingBeam(Beam):
    """A beam that records every candidate."""

    record: SearchRecord = Field(default_factory=SearchRecord, exclude=True)

    def __call__(self, *arguments: Any, **options: Any) -> list[list[Hypothesis]]:
        return super().__call__(*arguments, **options, record=self.record)


class ToyDecoder(nn.Module):
    """The toy model as a decoder of two rows."""

    def __init__(self) -> None:
        super().__init__()
        self.toy = Toy(SIZE, seed=2)

    def start(self, memory: Memory, batch: int, *, coverage: bool = False) -> Any:
        del memory, coverage
        return self.toy.start(range(batch))

    def forward(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        scores, state = self.toy.step(tokens[:, 0], state)
        return scores.unsqueeze(1), state

    def score(self, row: int, tokens: tuple[int, ...]) -> float:
        state, last, total = self.toy.start([row]), END, 0.0
        for token in (*tokens, END):
            scores, state = self.toy.step(torch.tensor([last]), state)
            total, last = total + float(scores[0, token]), token
        return total


def ngram(vocabulary: int) -> NGram:
    """A 3-gram model in which 0 is the start and 1 the end."""
    random = np.random.default_rng(1)
    texts = [random.integers(2, vocabulary, size=random.integers(0, 5)).tolist() for _ in range(30)]
    return estimate(texts, order=3, start=0, end=1, vocabulary=vocabulary)


def found(guide: Guide, search: Search = FULL) -> list[dict[tuple[int, ...], GuidedHypothesis]]:
    memory = Memory(torch.zeros(2, 1, 1), torch.ones(2, 1, dtype=torch.bool), ())
    options: dict[str, Any] = {"lengths": LENGTH + 1, "suppress": (0,)}
    rows = generate_guided(ToyDecoder(), memory, search, guide=guide, vocab_size=SIZE, end=END, **options)
    return [{tuple(guided.hypothesis.tokens): guided for guided in row if guided.hypothesis.ended} for row in rows]


def token_models() -> dict[str, Any]:
    model, ids = ngram(6), [-1, -1, 2, 5, 3]
    decoder = ToyDecoder()
    neural = NeuralLM(decoder.toy.step, decoder.toy.start([0]), start=END, end=END, vocabulary_ids=[-1, -1, 3, 2, 4])
    return {
        "n-gram": (NGramLM(model, vocabulary_ids=ids), lambda text: model.score([[ids[t] for t in text]])[0].sum()),
        "neural": (neural, lambda text: decoder.score(0, tuple([0, 0, 3, 2, 4][token] for token in text))),
    }


@pytest.mark.parametrize("word_score", [0.0, 0.8])
@pytest.mark.parametrize("kind", ["n-gram", "neural"])
def test_tokens_with_a_language_model(kind: str, word_score: float) -> None:
    lm, language = token_models()[kind]
    decoder = ToyDecoder()
    for row, hypotheses in enumerate(found(Guide(None, lm, WEIGHT, word_score))):
        texts = [text for size in range(LENGTH + 1) for text in itertools.product((2, 3, 4), repeat=size)]
        assert hypotheses.keys() == set(texts)
        for text in texts:
            expected = decoder.score(row, text) + WEIGHT * language(text) + word_score * len(text)
            assert hypotheses[text].hypothesis.score == pytest.approx(expected, abs=1e-6)
            assert hypotheses[text].language == pytest.approx(language(text), abs=1e-6)
            assert hypotheses[text].model == pytest.approx(decoder.score(row, text), abs=1e-6)


def readings(separator: int | None) -> dict[tuple[int, ...], list[tuple[int, ...]]]:
    """All texts of the lexicon, and the sequences of words that each can be read as."""
    ways: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    for size in range(LENGTH + 1):
        for words in itertools.product(range(4), repeat=size):
            for text in spellings(words, WORDS, separator):
                if len(text) <= LENGTH and (separator is None or not text or text[-1] != separator):
                    ways.setdefault(text, []).append(words)
    return ways


def test_a_word_score_without_lexicon_and_language_model() -> None:
    decoder = ToyDecoder()
    for row, hypotheses in enumerate(found(Guide(word_score=0.8))):
        assert len(hypotheses) == sum(3**size for size in range(LENGTH + 1))
        for text, guided in hypotheses.items():
            assert guided.hypothesis.score == pytest.approx(decoder.score(row, text) + 0.8 * len(text), abs=1e-6)
            assert guided.bonus == pytest.approx(0.8 * len(text))


@pytest.mark.parametrize("separator", [None, SEPARATOR])
@pytest.mark.parametrize("scores", [(0.0, 0.0), (1.5, -0.7)])
@pytest.mark.parametrize("kind", ["none", "n-gram", "neural"])
def test_words_of_a_lexicon(kind: str, scores: tuple[float, float], separator: int | None) -> None:
    """Only texts that consist of words, each scored by its best reading."""
    model, decoder, ids = ngram(6), ToyDecoder(), [3, -1, 2, 5]  # the second word is unknown: 4
    known = [3, 4, 2, 5] if kind == "n-gram" else [3, 4, 2, 0]
    lms: dict[str, Any] = {
        "none": None,
        "n-gram": NGramLM(model, vocabulary_ids=ids, unknown=4),
        "neural": NeuralLM(
            decoder.toy.step, decoder.toy.start([0]), start=END, end=END, vocabulary_ids=[3, -1, 2, 0], unknown=4
        ),
    }

    def language(words: tuple[int, ...]) -> float:
        text = tuple(known[word] for word in words)
        if kind == "none":
            return 0.0
        return float(model.score([text])[0].sum()) if kind == "n-gram" else decoder.score(0, text)

    def added(words: tuple[int, ...]) -> float:
        unknown = 0 if kind == "none" else words.count(1)
        return WEIGHT * language(words) + scores[0] * len(words) + scores[1] * unknown

    lexicon = Lexicon([(f"word {number}", way) for number, way in WORDS], separator=separator)
    truth = readings(separator)
    for row, hypotheses in enumerate(found(Guide(lexicon, lms[kind], WEIGHT, *scores))):
        assert hypotheses.keys() == truth.keys()
        for text, ways in truth.items():
            best, guided = max(map(added, ways)), hypotheses[text]
            assert guided.hypothesis.score == pytest.approx(decoder.score(row, text) + best, abs=1e-6)
            assert guided.hypothesis.score == pytest.approx(guided.hypothesis.log_probability)
            assert tuple(guided.words) in ways
            assert added(tuple(guided.words)) == pytest.approx(best, abs=1e-6)
            assert guided.language == pytest.approx(language(tuple(guided.words)), abs=1e-6)
            assert guided.bonus == pytest.approx(best - WEIGHT * guided.language, abs=1e-6)
            assert guided.model == pytest.approx(decoder.score(row, text), abs=1e-6)
            written = [text[first : last + 1] for first, last in guided.spans]
            assert all((word, way) in WORDS for word, way in zip(guided.words, written, strict=True))


@pytest.mark.parametrize("word_score", [0.9, 4.0, -0.5])  # 4: longer outputs have scores above 0
@pytest.mark.parametrize("length_penalty", ["none", "length", "gnmt"])
@pytest.mark.parametrize("lexicon", [None, Lexicon([("a", (2,)), ("ab", (2, 3)), ("bbb", (3, 3, 3))])])
def test_the_search_does_not_stop_before_words_can_add_to_the_score(
    lexicon: Lexicon | None, length_penalty: str, word_score: float
) -> None:
    """A beam of full width finds the best of all sequences, and a beam of size 1 is greedy search."""
    guide, options = Guide(lexicon, word_score=word_score), {"length_penalty": length_penalty}
    for best, every in zip(
        found(guide, FULL.model_copy(update={**options, "nbest": 1})),
        found(guide, FULL.model_copy(update=options)),
        strict=True,
    ):
        (text,), scores = best, {text: guided.hypothesis.score for text, guided in every.items()}
        assert len(scores) == (sum(3**size for size in range(LENGTH + 1)) if lexicon is None else 1 + 1 + 2 + 4 + 7)
        assert scores[text] == max(scores.values())
        assert best[text].hypothesis.score == scores[text]
    narrow = Beam(size=1, length_penalty="none")
    assert [list(row) for row in found(guide, narrow)] == [list(row) for row in found(guide, Greedy())]


@pytest.mark.parametrize("word_score", [0.0, 0.9])
def test_rescoring_reorders_the_n_best(word_score: float) -> None:
    """Of a beam that prunes nothing, the n-best after rescoring are those of the search with the model."""
    lm, _ = token_models()["n-gram"]
    beam = FULL.model_copy(update={"length_penalty": "length", "nbest": 4})
    fused, rescored = (found(Guide(None, lm, WEIGHT, word_score, rescore=rescore), beam) for rescore in (False, True))
    for left, right in zip(fused, rescored, strict=True):
        assert list(left) == list(right)
        for text in left:
            assert left[text].hypothesis.score == pytest.approx(right[text].hypothesis.score, abs=1e-6)
            assert left[text].language == pytest.approx(right[text].language)
            assert left[text].model == pytest.approx(right[text].model, abs=1e-6)
    unguided = found(Guide(None, lm, weight=0.0), beam)
    assert list(unguided[0]) != list(fused[0])


@pytest.mark.parametrize("separator", [None, SEPARATOR])
@pytest.mark.parametrize("rescore", [False, True])
def test_tokens_outside_the_lexicon_have_a_fate(rescore: bool, separator: int | None) -> None:
    """Each token after which no text of words is left, or that ends within a word, with the decoder's probability."""
    lexicon = Lexicon([(f"word {number}", way) for number, way in WORDS], separator=separator)
    lm = NGramLM(ngram(6), vocabulary_ids=[3, 4, 2, 5])
    search = RecordingBeam(size=6)
    found(Guide(lexicon, lm, WEIGHT, rescore=rescore), search)
    decoder, texts = ToyDecoder(), list(readings(separator))
    longer = {text[:size] for text in texts for size in range(len(text) + 1)}  # of at most LENGTH tokens
    for row in range(2):
        nodes, prefixes, fates = search.record.nodes(row), dict[int, tuple[int, ...]](), Counter[NodeStatus]()
        for node in nodes:
            prefix = prefixes[node.id] = (*prefixes[node.parent], node.token) if node.parent >= 0 else ()
            if node.parent < 0 or node.token == 0 or len(prefix) >= LENGTH:
                continue
            fates[node.status] += 1
            allowed = prefix[:-1] in texts if node.token == END else prefix in longer
            assert (node.status == NodeStatus.NOT_IN_LEXICON) is not allowed
            if not allowed:
                assert node.log_probability == pytest.approx(
                    decoder.toy.values(row, prefix[:-1], END)[node.token], abs=1e-6
                )
        assert fates[NodeStatus.NOT_IN_LEXICON] > 5
    plain = RecordingBeam(size=6)
    found(Guide(None, lm=None), plain)
    assert NodeStatus.NOT_IN_LEXICON not in {node.status for node in plain.record.nodes(0)}


def test_no_hypothesis_ends_within_a_word() -> None:
    """A greedy search that reaches the maximum length within a word keeps the words before it."""
    lexicon = Lexicon([("ab", (2, 3)), ("long", (2, 3, 3, 3, 3, 3, 3))])
    assert [*found(Guide(lexicon))[0]] == [(), (2, 3), (2, 3, 2, 3)]
    memory = Memory(torch.zeros(1, 1, 1), torch.ones(1, 1, dtype=torch.bool), ())
    options: dict[str, Any] = {"lengths": 3, "suppress": (0,), "guide": Guide(lexicon), "vocab_size": SIZE, "end": END}
    decoder = ToyDecoder()
    decoder.toy.table[:, END] = -50  # never ends by itself
    (((hypothesis, words, spans, *_),),) = generate_guided(decoder, memory, Greedy(), **options)
    assert (hypothesis.tokens, hypothesis.ended, words, spans) == ([2, 3], False, [0], [(0, 1)])
    assert len(hypothesis.log_probabilities) == 2
