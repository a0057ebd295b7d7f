"""Plots on a dark background: colours that can be read, pictures of data unchanged, nothing forgotten."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_rgb, to_rgba
from matplotlib.figure import Figure
from PIL import Image

from seqloom.insight import plotting
from seqloom.insight.learning_curves import draw_learning_curves
from seqloom.insight.plotting import named_plots, panel_figure, plot_theme, save_figure
from seqloom.insight.theme import dark_colour, dark_colour_map, dark_colours, from_oklab, oklab


def luminance(colour: Any) -> float:
    """Relative luminance of WCAG 2."""
    values = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in to_rgb(colour)]
    return 0.2126 * values[0] + 0.7152 * values[1] + 0.0722 * values[2]


def contrast(first: Any, second: Any) -> float:
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


def test_oklab_equals_the_published_values() -> None:
    # https://bottosson.github.io/posts/oklab, and CSS Color 4: white, red, green and blue, to the printed digits.
    colours = np.array([[1.0, 1, 1], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    expected = np.array(
        [[1.0, 0, 0], [0.62796, 0.22486, 0.12585], [0.86644, -0.23389, 0.17950], [0.45201, -0.03246, -0.31153]]
    )
    np.testing.assert_allclose(oklab(colours), expected, atol=2e-5)
    np.testing.assert_allclose(from_oklab(oklab(colours)), colours, atol=1e-6)


def test_text_and_curves_stand_out_from_the_dark_background() -> None:
    background = dark_colour("white")
    assert luminance(background) < 0.02
    for colour in (plotting.BLACK, plotting.SLATE):
        assert contrast(dark_colour(colour), background) >= 7  # WCAG AAA for text
    for colour in (*plotting.COLOURS, plotting.BLUE, plotting.RED, plotting.SAND, plotting.ORANGE, plotting.GREY):
        assert contrast(dark_colour(colour), background) >= 3  # WCAG AA for graphics
    assert contrast(dark_colour(plotting.GRID), background) < 2  # the grid stays in the background


def test_lighter_colours_become_darker_and_alpha_stays() -> None:
    greys = np.stack([np.linspace(0, 1, 20)] * 3 + [np.full(20, 0.3)], axis=1)
    converted = dark_colours(greys)
    assert (np.diff(oklab(converted[:, :3])[:, 0]) <= 1e-9).all()
    assert (converted[:, 3] == 0.3).all()


def test_colours_that_are_none_and_maps_of_pictures_are_kept() -> None:
    from matplotlib import colormaps

    assert dark_colour("none") == "none"
    for name in ("gray", "magma"):
        assert dark_colour_map(colormaps[name]) == colormaps[name]
    blues = dark_colour_map(colormaps["Blues"])
    assert luminance(blues(0.0)) < 0.05 < luminance(blues(1.0))
    assert dark_colour_map(blues) is blues


def test_no_light_colour_is_left_in_a_dark_plot(tmp_path: Path) -> None:
    figure = panel_figure(2, width=3, height=2)
    left, right = figure.axes
    left.plot([1, 2, 3], [3, 1, 2], color=plotting.BLACK, marker="o", label="black")
    left.axvspan(1, 2, color="white")
    left.legend()
    left.text(2, 2, "boxed", bbox={"facecolor": "white", "edgecolor": "white"})
    left.scatter([1, 2], [1, 2], color="white")
    arrow: Any = left.annotate("", xy=(3, 3), xytext=(1, 1), arrowprops={"color": plotting.BLACK})
    image = right.imshow(np.zeros((3, 3)), cmap="Blues", vmin=0, vmax=1)
    figure.colorbar(image, ax=right)
    with plot_theme("dark"):
        save_figure(figure, tmp_path / "dark.png", title="title")
    assert luminance(arrow.arrow_patch.get_edgecolor()) > 0.5
    pixels = np.asarray(Image.open(tmp_path / "dark.png").convert("RGB")) / 255
    bright = (pixels.min(axis=2) > 0.75).mean()
    assert 0 < bright < 0.05  # text and curves only
    assert (pixels.max(axis=2) < 0.16).mean() > 0.7  # background, heat map of zeros, white marks


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_named_plots_choose_the_theme_and_light_is_the_default(suffix: str, tmp_path: Path) -> None:
    rows = [{"update": update, "epoch": update / 2, "loss": 1 / (1 + update)} for update in range(3)]
    files = [tmp_path / f"{name}{suffix}" for name in ("light", "dark", "light_again")]
    draw_learning_curves(rows, files[0])
    with named_plots("", theme="dark"):
        draw_learning_curves(rows, files[1])
    draw_learning_curves(rows, files[2])
    first, dark, again = (file.read_bytes() for file in files)
    assert first == again != dark
    if suffix == ".svg":
        background = "".join(f"{round(255 * value):02x}" for value in to_rgba(dark_colour("white"))[:3])
        assert f"#{background}" in dark.decode()
        assert "#ffffff" not in dark.decode()


def test_an_unknown_theme_is_an_error() -> None:
    with pytest.raises(ValueError, match="expected the theme light or dark, got 'black'"), plot_theme("black"):  # type: ignore[arg-type]
        save_figure(Figure(), "never.png")
