"""Combination of several CTC models, compared with sums over all paths and all texts."""

from itertools import product

import numpy as np
import pytest
import torch
from rapidfuzz.distance import Levenshtein
from torch import Tensor

from seqloom.decoding.frames.best_path import BestPath
from seqloom.decoding.frames.frame_search import Transcript
from seqloom.decoding.frames.prefix_beam import PrefixBeam
from seqloom.tasks.transcribe.combination import combine, search_together

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
    (actual,) = search_together(wide, models, torch.tensor([FRAMES]))
    each = [all_texts(table[0]) for table in models]
    mean = {text: np.mean([texts.get(text, 0.0) for texts in each]) for text in set().union(*each)}
    risks = {text: sum(p * Levenshtein.distance(text, other) for other, p in mean.items()) for text in mean}
    assert {tuple(transcript.tokens) for transcript in actual} == set(mean)
    for transcript in actual:
        text = tuple(transcript.tokens)
        # Texts with a probability below 0.0001 do not count: at most 31 of them, each at most four errors away.
        assert transcript.score == pytest.approx(-risks[text], abs=31 * 4 * 1e-4)
        logs = [np.log(texts[text]) for texts in each]
        assert transcript.acoustic == pytest.approx(np.mean(logs), abs=1e-5)  # single precision in the kernel
    scores = [transcript.score for transcript in actual]
    assert scores == sorted(scores, reverse=True)


def test_models_that_place_tokens_in_different_frames_agree() -> None:
    """All are sure of the text 1 2, in frames of their own, so that the mean of their frames is blank everywhere."""
    paths = ([0, 1, 0, 2, 0, 0], [1, 0, 0, 0, 2, 0], [0, 0, 1, 0, 0, 2])
    models = [torch.eye(3, dtype=torch.float64)[path].mul(0.91).add(0.03).log().unsqueeze(0) for path in paths]
    for search in (BestPath(), PrefixBeam()):
        ((best,),) = search_together(search, models, torch.tensor([6]))
        assert best.tokens == [1, 2]
    mean = torch.stack(models).logsumexp(dim=0)
    ((averaged,),) = BestPath()(mean.log_softmax(dim=-1), torch.tensor([6]))
    assert averaged.tokens == []


def test_one_model_is_searched_as_usual() -> None:
    (table,) = tables(1, rows=3, seed=7)
    lengths = torch.tensor([4, 2, 0])
    for search in (BestPath(), PrefixBeam(nbest=3)):
        assert search_together(search, [table], lengths) == search(table, lengths)


def test_rows_have_their_own_lengths_and_as_many_transcripts_as_asked_for() -> None:
    models, lengths = tables(2, rows=3, seed=8), torch.tensor([4, 2, 0])
    together = search_together(PrefixBeam(nbest=2), models, lengths)
    assert [len(row) for row in together] == [2, 2, 1]
    for row, length in enumerate(lengths.tolist()):
        alone = search_together(
            PrefixBeam(nbest=2), [table[row : row + 1, :length] for table in models], lengths[[row]]
        )
        assert together[row] == alone[0]


def test_errors_are_those_of_words_and_the_language_model_counts() -> None:
    def transcript(tokens: list[int], words: list[int], rest: float) -> Transcript:
        return Transcript(tokens, words, score=rest, acoustic=0.0, language=rest, frames=[], spans=[])

    table = torch.full((4, TOKENS), 1 / TOKENS, dtype=torch.float64).log()
    one, two = transcript([1, 2], [5], 0.0), transcript([2, 1], [6], 1.0)  # equally probable but for the language model
    best, other = combine([[one], [two]], [table, table])
    assert (best.words, other.words) == ([6], [5])
    probability = 1 / (1 + np.exp(-1.0))
    assert best.score == pytest.approx(-(1 - probability))
    assert combine([[], []], [table, table]) == []
