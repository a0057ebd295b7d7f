"""Colours of the pages: every text can be read, in light and dark."""

import re
from importlib.resources import files

import pytest

CSS = (files("seqloom.studio") / "static" / "style.css").read_text()
THEMES = [dict(re.findall(r"--([\w-]+): (#\w{6})", block)) for block in re.findall(r":root[^{]*\{([^}]*)\}", CSS)[:2]]
TEXTS = [(name, ground) for name in ("ink", "soft", "faint") for ground in ("ground", "raised")]
MARKS = [(name, f"{name}-soft") for name in ("accent", "good", "bad", "warn")]


def luminance(colour: str) -> float:
    """The relative luminance of WCAG 2.1."""
    channels = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [value / 12.92 if value <= 0.03928 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return sum(weight * value for weight, value in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(first: str, second: str) -> float:
    high, low = sorted((luminance(first), luminance(second)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_the_contrast_is_that_of_the_standard() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)  # the example of many tools


@pytest.mark.parametrize("theme", THEMES, ids=["light", "dark"])
def test_texts_and_curves_can_be_told_from_the_ground(theme: dict[str, str]) -> None:
    for name, ground in TEXTS + MARKS:
        assert contrast(theme[name], theme[ground]) >= 4.45, (name, ground)  # WCAG AA: 4.5, rounded
    for curve in range(10):
        assert contrast(theme[f"c{curve}"], theme["ground"]) >= 3, curve  # WCAG AA of graphics
