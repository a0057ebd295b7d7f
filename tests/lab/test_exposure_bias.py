"""Exposure bias: the verdict on made-up shares, the schedule, and shares against a greedy decoder by hand."""

import pytest
import torch

from seqloom.lab.exposure_bias import FORCED, SAMPLED, ExposureBias, Score, right_after_reference
from seqloom.lab.translation import END, collate
from seqloom.models.scheduled_sampling import TokenMixer


def rows(training: str, reference: tuple[float, ...], own: tuple[float, ...]) -> list[Score]:
    """Shares at two positions, by seed."""
    return [
        Score(training, seed, (one + 0.1, one - 0.1), (other, other))
        for seed, (one, other) in enumerate(zip(reference, own, strict=True))
    ]


GOOD, BAD = (0.8, 0.81, 0.83), (0.6, 0.61, 0.62)


@pytest.mark.parametrize(
    ("own", "sampled", "status"),
    [
        (BAD, (0.7, 0.72, 0.73), "holds"),
        (BAD, (0.5, 0.52, 0.53), "does not hold here"),  # scheduled sampling makes it worse
        ((0.85, 0.87, 0.88), (0.9, 0.92, 0.95), "does not hold here"),  # no gap
        (BAD, (0.5, 0.7, 0.8), "not decided"),
        ((0.7, 0.9, 0.82), (0.95, 0.96, 0.97), "not decided"),
    ],
)
def test_the_verdict_follows_the_rule(own: tuple[float, ...], sampled: tuple[float, ...], status: str) -> None:
    measured = rows(FORCED, GOOD, own) + rows(SAMPLED, GOOD, sampled)
    assert ExposureBias().verdict(measured).status == status


def test_the_probability_of_the_right_word_falls_to_the_final_one() -> None:
    experiment = ExposureBias(updates=10, final_probability=0.2)
    probabilities = [experiment.scheduled_sampling().probability(update) for update in (0, 5, 10)]
    assert probabilities == pytest.approx([1, 0.6, 0.2])


def test_the_share_with_right_words_is_that_of_a_step_by_step_decoder() -> None:
    experiment = ExposureBias(**ExposureBias.quick)
    model, draw = experiment.train_translator(1, lengths=(3,), scheduled_sampling=experiment.scheduled_sampling())
    mixer = next(module for module in model.modules() if isinstance(module, TokenMixer))
    assert int(mixer.updates) == experiment.updates
    pairs = experiment.new_pairs(3, draw)
    right = [0, 0, 0]
    with torch.no_grad():
        for pair in pairs:
            state, before = model.start(*collate([pair]).inputs), END
            for at, word in enumerate(pair[1]):
                logits, state = model.decoder(torch.tensor([[before]]), state)
                right[at] += int(logits[0, 0].argmax()) == word
                before = word
    assert right_after_reference(model, pairs, 3) == pytest.approx([count / len(pairs) for count in right])
