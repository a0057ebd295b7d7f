"""Minimum Bayes risk decoding with several CTC models, compared with sums over all paths and all texts."""

from itertools import product

import numpy as np
import pytest
import torch
from rapidfuzz.distance import Levenshtein
from torch import Tensor

from seqloom.decoding.frames.best_path import BestPath
from seqloom.decoding.frames.frame_search import Guide, Transcript
from seqloom.decoding.frames.lexicon import Lexicon
from seqloom.decoding.frames.prefix_beam import PrefixBeam
from seqloom.tasks.transcribe.minimum_bayes_risk import decode_minimum_bayes_risk, rank_by_risk

FRAMES, TOKENS = 4, 3  # with the blank


def tables(count: int, *, rows: int = 1, seed: int = 0) -> list[Tensor]:
    random = torch.Generator().manual_seed(seed)
    shape = (rows, FRAMES, TOKENS)
    return [torch.randn(*shape, generator=random, dtype=torch.float64).log_softmax(dim=-1) for _ in range(count)]


def all_texts(table: Tensor) -> dict[tuple[int, ...], float]:  # (T, V)
    """The probability of each text, by summing over all paths."""
    found: dict[tuple[int, ...], float] = {}
    for path in product(range(TOKENS), repeat=len(table)):
        text = tuple(token for token, before in zip(path, (0, *path), strict=False) if token not in (0, before))
        probability = float(torch.stack([table[time, token] for time, token in enumerate(path)]).sum().exp())
        found[text] = found.get(text, 0.0) + probability
    return found


@pytest.mark.parametrize("seed", range(5))
def test_the_order_is_that_of_the_expected_errors(seed: int) -> None:
    """With all texts as candidates, probabilities are those of the models themselves."""
    models = tables(3, seed=seed)
    wide = PrefixBeam(size=1000, nbest=1000)
    (actual,) = decode_minimum_bayes_risk(wide, models, torch.tensor([FRAMES]))
    each = [all_texts(table[0]) for table in models]
    mean = {text: np.mean([texts.get(text, 0.0) for texts in each]) for text in set().union(*each)}
    risks = {text: sum(p * Levenshtein.distance(text, other) for other, p in mean.items()) for text in mean}
    assert {tuple(transcript.tokens) for transcript in actual} == set(mean)
    for transcript in actual:
        text = tuple(transcript.tokens)
        # Texts with a probability below 0.0001 do not count: at most 31 of them, each at most four errors away.
        assert transcript.score == pytest.approx(-risks[text], abs=31 * 4 * 1e-4)
        logs = [np.log(texts[text]) for texts in each]
        assert transcript.acoustic == pytest.approx(np.mean(logs), abs=1e-10)
    scores = [transcript.score for transcript in actual]
    assert scores == sorted(scores, reverse=True)


def test_models_that_place_tokens_in_different_frames_agree() -> None:
    """All are sure of the text 1 2, in frames of their own, so that the mean of their frames is blank everywhere."""
    paths = ([0, 1, 0, 2, 0, 0], [1, 0, 0, 0, 2, 0], [0, 0, 1, 0, 0, 2])
    models = [torch.eye(3, dtype=torch.float64)[path].mul(0.91).add(0.03).log().unsqueeze(0) for path in paths]
    for search in (BestPath(), PrefixBeam()):
        ((best,),) = decode_minimum_bayes_risk(search, models, torch.tensor([6]))
        assert best.tokens == [1, 2]
    mean = torch.stack(models).logsumexp(dim=0)
    ((averaged,),) = BestPath()(mean.log_softmax(dim=-1), torch.tensor([6]))
    assert averaged.tokens == []


def test_one_model_is_searched_as_usual() -> None:
    (table,) = tables(1, rows=3, seed=7)
    lengths = torch.tensor([4, 2, 0])
    for search in (BestPath(), PrefixBeam(nbest=3)):
        assert decode_minimum_bayes_risk(search, [table], lengths) == search(table, lengths)


def test_rows_have_their_own_lengths_and_as_many_transcripts_as_asked_for() -> None:
    models, lengths = tables(2, rows=3, seed=8), torch.tensor([4, 2, 0])
    together = decode_minimum_bayes_risk(PrefixBeam(nbest=2), models, lengths)
    assert [len(row) for row in together] == [2, 2, 1]
    for row, length in enumerate(lengths.tolist()):
        alone = decode_minimum_bayes_risk(
            PrefixBeam(nbest=2), [table[row : row + 1, :length] for table in models], lengths[[row]]
        )
        assert together[row] == alone[0]


def test_errors_are_those_of_words_and_the_language_model_counts() -> None:
    def transcript(tokens: list[int], words: list[int], rest: float) -> Transcript:
        return Transcript(tokens, words, score=rest, acoustic=0.0, language=rest, frames=[], spans=[])

    table = torch.full((4, TOKENS), 1 / TOKENS, dtype=torch.float64).log()
    one, two = transcript([1, 2], [5], 0.0), transcript([2, 1], [6], 1.0)  # equally probable but for the language model
    best, other = rank_by_risk([[one], [two]], [table, table], has_lexicon=True)
    assert (best.words, other.words) == ([6], [5])
    probability = 1 / (1 + np.exp(-1.0))
    assert best.score == pytest.approx(-(1 - probability))
    assert rank_by_risk([[], []], [table, table]) == []


@pytest.mark.parametrize("seed", range(5))
def test_a_text_with_several_spellings_is_one_candidate_with_the_sum_of_their_probabilities(seed: int) -> None:
    """Each model proposes one spelling of each text: the sum is over those that any of them proposes."""
    lexicon = Lexicon([("a", [1, 2]), ("a", [1]), ("b", [2])])
    models, wide = tables(3, seed=seed), PrefixBeam(size=1000, nbest=1000)
    lengths, guide = torch.tensor([FRAMES]), Guide(lexicon)
    (actual,) = decode_minimum_bayes_risk(wide, models, lengths, guide=guide)
    proposals = [each for table in models for each in wide(table, lengths, guide=guide)[0]]
    spellings = {(tuple(each.words), tuple(each.tokens)) for each in proposals}
    texts = sorted({words for words, _ in spellings})
    assert len(texts) < len(spellings)
    assert sorted(tuple(each.words) for each in actual) == texts
    by_model = []
    for table in models:
        found = all_texts(table[0])
        sums = np.array([sum(found[tokens] for words, tokens in spellings if words == text) for text in texts])
        by_model.append((found, sums))
    mean = np.mean([sums / sums.sum() for _, sums in by_model], axis=0)
    for transcript in actual:
        text = tuple(transcript.words)
        distances = [Levenshtein.distance(text, other) for other in texts]
        assert transcript.score == pytest.approx(-mean @ distances, abs=len(texts) * FRAMES * 1e-4)
        place = texts.index(text)
        assert transcript.acoustic == pytest.approx(np.mean([np.log(sums[place]) for _, sums in by_model]), abs=1e-10)
        scores = {
            tokens: np.mean([np.log(found[tokens]) for found, _ in by_model])
            for words, tokens in spellings
            if words == text
        }
        assert tuple(transcript.tokens) == max(scores, key=scores.__getitem__)
