"""CTC prefix scores against the enumeration of all paths, and joint search against all label sequences."""

import itertools
import math

import numpy as np
import pytest
import torch
from tests.decoding.tokens.reference import Toy
from torch import Tensor

from seqloom.decoding.tokens.beam import Beam
from seqloom.decoding.tokens.ctc_prefix import ctc_prefix_scorer
from seqloom.decoding.tokens.fusion import Scorer, fuse
from seqloom.kernels.ctc.naive import sequence_log_probs

BLANK, END, SIZE = 0, 1, 4  # two labels: 2 and 3
LENGTHS = (4, 3, 0)


def frames(*, scale: float = 1.5) -> Tensor:  # (3, 4, 4)
    """Random frames in which the end token is impossible, as a joint model returns them."""
    logits = scale * torch.randn(len(LENGTHS), max(LENGTHS), SIZE, generator=torch.Generator().manual_seed(3))
    logits[:, :, END] = -torch.inf
    return logits.double().log_softmax(dim=-1)


def every_transcript(row: Tensor, length: int) -> dict[tuple[int, ...], float]:
    return sequence_log_probs(row[:length].numpy(), BLANK)


@pytest.mark.parametrize("scale", [1.5, 600.0])  # the second underflows as products of probabilities
def test_scores_are_probabilities_of_all_transcripts_with_the_prefix(scale: float) -> None:
    table = frames(scale=scale)
    scorer = ctc_prefix_scorer(table, torch.tensor(LENGTHS), blank=BLANK, end=END)
    whole = [every_transcript(row, length) for row, length in zip(table, LENGTHS, strict=True)]
    for prefix in itertools.chain.from_iterable(itertools.product((2, 3), repeat=n) for n in range(5)):
        rows, totals = len(LENGTHS), torch.zeros(len(LENGTHS), dtype=torch.float64)
        scores, state = scorer.step(torch.full((rows,), END), scorer.state)
        for token in prefix:
            totals = totals + scores[:, token]
            scores, state = scorer.step(torch.full((rows,), token), state)
        for row, transcripts in enumerate(whole):
            starting = [value for tokens, value in transcripts.items() if tokens[: len(prefix)] == prefix]
            expected = np.logaddexp.reduce(starting) if starting else -math.inf
            assert totals[row].item() == pytest.approx(expected, abs=1e-9)
            ending = (totals + scores[:, END])[row].item()
            assert ending == pytest.approx(transcripts.get(prefix, -math.inf), abs=1e-9)


def test_joint_beam_of_full_width_is_exhaustive_search() -> None:
    table, toy, weight = frames()[:2], Toy(SIZE, seed=5), 0.3
    ctc = ctc_prefix_scorer(table, torch.tensor(LENGTHS[:2]), blank=BLANK, end=END, weight=weight)
    step, state, *_ = fuse([Scorer(toy.step, toy.start([0, 1]), 1 - weight), ctc])
    beam = Beam(size=400, nbest=3, length_penalty="none")
    start = torch.full((2,), END)
    found = beam(step, state, start, END, lengths=max(LENGTHS) + 1, suppress=(BLANK,))
    for row in range(2):
        expected = []
        for tokens, acoustic in every_transcript(table[row], LENGTHS[row]).items():
            toy_state, total, last = toy.start([row]), 0.0, END
            for token in (*tokens, END):
                scores, toy_state = toy.step(torch.tensor([last]), toy_state)
                total, last = total + float(scores[0, token]), token
            expected.append(((1 - weight) * total + weight * acoustic, tokens))
        best = sorted(expected, reverse=True)[:3]
        assert [tuple(hypothesis.tokens) for hypothesis in found[row]] == [tokens for _, tokens in best]
        assert [hypothesis.score for hypothesis in found[row]] == pytest.approx([score for score, _ in best], abs=1e-9)
    with pytest.raises(ValueError, match="the weight of a scorer is 0"):
        fuse([Scorer(toy.step, toy.start([0]), 0.0)])
