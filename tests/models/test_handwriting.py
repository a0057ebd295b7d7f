"""Drawings that a model samples: they follow its distribution, end, and continue a given one."""

from typing import Any

import numpy as np
import pytest
import torch

from seqloom.data.batch import Padded, pad
from seqloom.models.encoder import RecurrenceConfig
from seqloom.models.handwriting import HandwritingModel, PenInputs, PenTargets
from seqloom.models.stroke_distribution import DRAW, END

NO_TEXT = Padded(torch.zeros(3, 0, dtype=torch.int64), torch.zeros(3, 0, dtype=torch.bool))


def make(characters: int = 0, **options: Any) -> HandwritingModel:
    torch.manual_seed(1)
    recurrence = RecurrenceConfig(cell="gru", hidden_size=6, **options)
    return HandwritingModel(recurrence, components=2, characters=characters, window_components=2).eval()


def test_the_same_seed_gives_the_same_drawings() -> None:
    model = make()
    first, second, other = (
        model.sample(NO_TEXT, length=9, bias=0.0, generator=torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)
    )
    assert all(np.array_equal(one, two) for one, two in zip(first, second, strict=True))
    assert any(not np.array_equal(one, two) for one, two in zip(first, other, strict=True))
    assert all(len(drawing) <= 9 and set(drawing[:, 2]) <= {0.0, 1.0} for drawing in first)


@pytest.mark.parametrize("characters", [0, 4])
def test_the_pen_cannot_end_before_the_first_point(characters: int) -> None:
    """What is sampled and how probable it is agree: of drawings with one point, the end costs nothing but its own."""
    model = make(characters)
    model.output.bias.data[-1] = 100.0  # END
    if characters:  # the window leaps beyond the text at once
        window: Any = model.layer
        window.window_output.bias.data[4:] = 3.0
    text = pad([np.array([1])] * 3) if characters else NO_TEXT
    drawings = model.sample(text, length=9, bias=0.0, generator=torch.Generator().manual_seed(1))
    assert [drawing.shape for drawing in drawings] == [(1, 3)] * 3
    points = torch.cat([torch.zeros(3, 1, 3), torch.from_numpy(np.stack(drawings))], dim=1)
    inputs = PenInputs(Padded(points, torch.ones(3, 2, dtype=torch.bool)), text)
    pen = torch.stack([points[:, 1, 2].long(), torch.full((3,), END)], dim=1)
    movement = torch.cat([points[:, 1:, :2], torch.zeros(3, 1, 2)], dim=1)
    with torch.no_grad():
        distribution, values = model(inputs), model.log_probabilities(inputs, PenTargets(movement, pen))
    assert distribution.log_pen[:, 0, :END].exp().sum(dim=-1).tolist() == pytest.approx([1] * 3)
    assert torch.isneginf(distribution.log_pen[:, 0, END]).all()
    assert torch.allclose(values, distribution.log_probability(movement, pen))
    assert values[:, 1].tolist() == pytest.approx([0] * 3, abs=1e-6)
    model.never_empty = False  # a model of an earlier version: its likelihoods stay as they were
    with torch.no_grad():
        assert model(inputs).log_pen[:, 0, END].tolist() == pytest.approx([0] * 3, abs=1e-6)
    drawings = model.sample(text, length=9, bias=0.0, generator=torch.Generator().manual_seed(1))
    assert [drawing.shape for drawing in drawings] == [(1, 3)] * 3


def test_a_given_drawing_may_be_complete() -> None:
    model = make()
    model.output.bias.data[-1] = 100.0  # END
    drawings = model.sample(
        NO_TEXT, length=9, bias=0.0, generator=torch.Generator().manual_seed(1), prime=torch.randn(3, 4, 3)
    )
    assert [drawing.shape for drawing in drawings] == [(0, 3)] * 3


def test_training_starts_from_the_frequencies_of_the_states_of_the_pen() -> None:
    frequencies = (0.9, 0.08, 0.02)
    model = HandwritingModel(RecurrenceConfig(cell="gru", hidden_size=6), components=2, pen=frequencies).eval()
    model.output.weight.data.zero_()
    points = Padded(torch.zeros(1, 3, 3), torch.ones(1, 3, dtype=torch.bool))
    no_text = Padded(*(part[:1] for part in NO_TEXT))
    with torch.no_grad():
        pen = model(PenInputs(points, no_text)).log_pen[0].exp()
    assert pen[1].tolist() == pytest.approx(frequencies)
    assert pen[0].tolist() == pytest.approx([0.9 / 0.98, 0.08 / 0.98, 0])


def test_writing_stops_behind_the_text() -> None:
    model = make(characters=4)
    model.output.bias.data[-1] = -100.0  # never by itself
    window: Any = model.layer
    window.window_output.bias.data[4:] = 0.0  # one character a step
    window.window_output.weight.data.zero_()
    text = pad([np.array([1, 2, 3]), np.array([1])])
    drawings = model.sample(text, length=50, bias=0.0, generator=torch.Generator().manual_seed(1))
    assert [len(drawing) for drawing in drawings] == [3, 1]


def test_a_primed_drawing_starts_where_the_given_one_ends() -> None:
    model = make()
    prime = torch.randn(3, 4, 3)
    prime[..., 2] = 0
    model.output.bias.data[-3:] = torch.tensor([50.0, -50.0, -50.0])  # always draws
    drawings = model.sample(NO_TEXT, length=1, bias=2000.0, generator=torch.Generator().manual_seed(1), prime=prime)
    inputs = PenInputs(
        Padded(torch.cat([torch.zeros(3, 1, 3), prime], dim=1), torch.ones(3, 5, dtype=torch.bool)), NO_TEXT
    )
    with torch.no_grad():
        distribution = model(inputs)
    best = distribution.log_weights[:, -1].argmax(dim=-1)
    expected = distribution.means[torch.arange(3), -1, best]
    drawn = torch.tensor(np.stack([drawing[0, :2] for drawing in drawings]))
    assert torch.allclose(drawn, expected, atol=1e-4)  # a large bias leaves only the most probable mean


def test_log_probabilities_do_not_see_what_follows() -> None:
    model = make(characters=3, layers=2)
    text = pad([np.array([1, 2])])
    points = torch.randn(1, 5, 3)
    changed = points.clone()
    changed[:, 4] += 1
    targets = PenTargets(torch.randn(1, 5, 2), torch.tensor([[DRAW, DRAW, DRAW, DRAW, END]]))
    mask = torch.ones(1, 5, dtype=torch.bool)
    with torch.no_grad():
        one, two = (model.log_probabilities(PenInputs(Padded(p, mask), text), targets) for p in (points, changed))
    assert torch.equal(one[:, :4], two[:, :4])
    assert not torch.equal(one[:, 4], two[:, 4])


def test_a_text_needs_a_cell_in_the_lowest_layer() -> None:
    with pytest.raises(ValueError, match="needs a recurrent cell in its lowest layer"):
        HandwritingModel(RecurrenceConfig(cell="transformer", hidden_size=8), components=1, characters=3)
