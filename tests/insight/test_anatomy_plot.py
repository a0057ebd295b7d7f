"""Pictures of the parts of any model."""

from pathlib import Path

import pytest
from tests.insight.test_model_parts import model_of

from seqloom.insight.anatomy_plot import draw_anatomy
from seqloom.insight.model_parts import anatomy
from seqloom.insight.plotting import plot_theme
from seqloom.insight.theme import THEMES


@pytest.mark.parametrize("name", ["tag, crf", "translate", "transcribe, joint", "embed"])
def test_any_model_can_be_drawn(name: str, tmp_path: Path) -> None:
    root = anatomy(model_of(name, tmp_path))
    for theme in THEMES:
        with plot_theme(theme):
            draw_anatomy(root, tmp_path / f"{theme}.svg")
    light, dark = ((tmp_path / f"{theme}.svg").read_text() for theme in ("light", "dark"))
    assert f"{root.parameters:,} parameters" in light
    assert light != dark
