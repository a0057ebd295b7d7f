"""Pictures of positions show what the layers compute, and drawing changes no random numbers."""

from pathlib import Path

import torch

from seqloom.insight.position_plot import draw_positions, position_picture
from seqloom.layers.transformer.positions import KINDS


def test_pictures_hold_the_values_of_the_schemes() -> None:
    assert position_picture("counts", length=4, size=8).values[:, 0].tolist() == [0, 1, 2, 3]
    assert position_picture("binary", length=4, size=8).values.tolist() == [[0, 0], [1, 0], [0, 1], [1, 1]]
    assert position_picture("alibi", length=3, size=8).values[0].tolist() == [0, -0.25, -0.5]
    assert position_picture("relative", length=20, size=8).values[0, 19] == 16
    rotary = position_picture("rotary", length=5, size=8).values
    torch.testing.assert_close(rotary.diagonal(), torch.ones(5))
    torch.testing.assert_close(rotary[0, 2], rotary[2, 4])


def test_every_scheme_is_drawn(tmp_path: Path) -> None:
    before = torch.get_rng_state()
    figure = draw_positions(tmp_path / "positions.png", length=6, size=4)
    assert torch.equal(torch.get_rng_state(), before)
    assert (tmp_path / "positions.png").stat().st_size > 10_000
    titles = [axes.get_title(loc="left").partition(":")[0] for axes in figure.axes]
    assert [title for title in titles if title] == [kind for kind in KINDS if kind != "none"]
