"""Scheduled sampling: schedules of the paper, and which tokens are mixed."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from seqloom.layers.build import recurrent
from seqloom.layers.embedding import Embedding
from seqloom.models.decoder import Decoder
from seqloom.models.scheduled_sampling import ScheduledSampling, TokenMixer


def test_schedules_are_those_of_the_paper() -> None:
    linear = ScheduledSampling(schedule="linear", offset=0.9, slope=0.01, floor=0.25)
    assert [linear.probability(update) for update in (0, 10, 60, 1000)] == pytest.approx([0.9, 0.8, 0.3, 0.25])
    exponential = ScheduledSampling(schedule="exponential", base=0.99)
    assert [exponential.probability(update) for update in (0, 1, 100)] == pytest.approx([1, 0.99, 0.99**100])
    sigmoid = ScheduledSampling(schedule="inverse_sigmoid", width=50)
    for update in (0, 100, 400, 1000):
        assert sigmoid.probability(update) == pytest.approx(50 / (50 + math.exp(update / 50)))
    assert sigmoid.probability(10**9) == pytest.approx(0, abs=1e-300)
    assert ScheduledSampling().probability(10**9) == 1


class Counting(nn.Module):
    """A decoder that predicts the last token plus one; its state counts the tokens it has read."""

    def forward(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        logits = torch.full((len(tokens), 1, 9), -1e9)
        logits[torch.arange(len(tokens)), 0, (tokens[:, 0] + 1) % 9] = 0
        return logits, state + 1


@pytest.mark.parametrize("feedback", ["sample", "argmax"])
def test_each_token_follows_the_mixed_ones_before(feedback: str) -> None:
    mixer = TokenMixer(ScheduledSampling.model_validate({"schedule": "linear", "offset": 0.5, "feedback": feedback}))
    torch.manual_seed(1)
    tokens = torch.randint(2, 9, (200, 6))
    mixed = mixer(Counting(), torch.zeros(()), tokens)
    assert torch.equal(mixed[:, 0], tokens[:, 0])
    predicted = (mixed[:, :-1] + 1) % 9  # what the decoder predicts from the mixed tokens
    assert bool(((mixed[:, 1:] == tokens[:, 1:]) | (mixed[:, 1:] == predicted)).all())
    kept = (mixed[:, 1:] == tokens[:, 1:]) & (mixed[:, 1:] != predicted)
    decided = tokens[:, 1:] != predicted
    assert float(kept.sum() / decided.sum()) == pytest.approx(0.5, abs=0.06)  # of about 880 draws: four deviations


def test_suppressed_tokens_are_never_sampled() -> None:
    mixer = TokenMixer(ScheduledSampling(schedule="linear", offset=0.0))
    torch.manual_seed(1)
    decoder = Decoder(Embedding(5, 4), recurrent("gru", 4, 4))
    mixed = mixer(decoder, decoder.start(None, 64), torch.full((64, 8), 4), suppress=(0, 1))
    assert not (mixed < 2).any()
    assert set(mixed[:, 1:].flatten().tolist()) == {2, 3, 4}


def test_probability_one_samples_nothing() -> None:
    mixer = TokenMixer(ScheduledSampling(schedule="linear", slope=0.25))
    tokens = torch.ones(2, 3, dtype=torch.int64)
    before = torch.get_rng_state()
    assert mixer(nn.Identity(), None, tokens) is tokens
    assert torch.equal(torch.get_rng_state(), before)
    mixer.after_update()
    assert mixer.settings.probability(int(mixer.updates)) == 0.75
    assert int(mixer.state_dict()["updates"]) == 1
