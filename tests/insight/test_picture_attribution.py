"""Attributions of images and videos: the colour of each cell and frame, as text, HTML and plots."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from seqloom.insight.attribution import Attribution
from seqloom.insight.attribution_plot import attribution_html, attribution_lines, draw_attribution
from seqloom.insight.picture_attribution import STRENGTH, _shaded

VALUES = [2.0, 0.0, 0.0, -1.0]
IMAGE = Attribution(
    method="occlusion",
    target="cat",
    tokens=["1", "2", "3", "4"],
    values=VALUES,
    words=["1", "2", "3", "4"],
    word_values=VALUES,
    score=1.0,
    baseline_score=0.0,
    pictures=np.full((4, 4, 3), 255, np.uint8),
    grid=(2, 2),
)
VIDEO = replace(IMAGE, pictures=np.zeros((4, 8, 8, 3), np.uint8), grid=None)


def test_maps_for_and_against_have_a_common_scale() -> None:
    first, *rows = list(attribution_lines(IMAGE))[:5]
    assert first == "Which cells of the image mattered for cat (occlusion):"
    assert rows == ["for        against", "██", "             ▒▒", "█ = 2"]


def test_cells_are_blue_or_orange_over_grey() -> None:
    shaded = _shaded(np.asarray(IMAGE.pictures), np.array(VALUES).reshape(2, 2))
    grey, blue, orange = np.full(3, 0.95), np.array([31, 111, 180]) / 255, np.array([214, 113, 20]) / 255
    np.testing.assert_allclose(shaded[0, 0], (1 - STRENGTH) * grey + STRENGTH * blue)
    np.testing.assert_allclose(shaded[3, 3], (1 - STRENGTH / 2) * grey + STRENGTH / 2 * orange)
    np.testing.assert_allclose(shaded[0, 3], grey)


def test_frames_have_their_values() -> None:
    first, *rows = list(attribution_lines(VIDEO))[:5]
    assert first == "Which frames mattered for cat (occlusion):"
    assert rows[1].split() == ["1", "2", "3", "4"]
    page = "".join(attribution_html(VIDEO))
    assert page.count("<img ") == 4
    assert 'title="-1"' in page


def test_many_frames_share_pictures() -> None:
    values = [1.0] * 100
    many = replace(VIDEO, values=values, tokens=list(map(str, range(100))), pictures=np.zeros((100, 4, 4, 3), np.uint8))
    page = "".join(attribution_html(many))
    assert page.count("<img ") == 20  # of five frames each
    assert page.count('title="+5"') == 20


def test_plots_are_written(tmp_path: Path) -> None:
    for name, attribution in (("image", IMAGE), ("video", VIDEO)):
        draw_attribution(attribution, tmp_path / f"{name}.svg", title="a $ title")
        assert "cat" in (tmp_path / f"{name}.svg").read_text()
