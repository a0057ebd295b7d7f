"""Gates, heads, frames and the search in a notebook: the pictures are the numbers."""

import base64
import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.contracts.tiny import CASES
from tests.test_explain import untrained_model

from seqloom.insight.explanation import Explanation


def pictures(explanation: Explanation) -> dict[str, np.ndarray[Any, Any]]:
    """The pictures of a page with their titles, (H, W, 4)."""
    found = re.findall(r'src="data:image/png;base64,([^"]+)" alt="([^":]+)', explanation._repr_html_())
    return {title: np.array(Image.open(io.BytesIO(base64.b64decode(data)))) for data, title in found}


def test_pictures_of_gates_are_their_values(tmp_path: Path) -> None:
    model = untrained_model(CASES["tag"], tmp_path)
    plain, explanation = model.explain("the Anna sees"), model.explain("the Anna sees", gates=True)
    assert plain.to_dict() == explanation.to_dict()  # looking changes nothing, and JSON has no gates
    trace, _ = explanation.gates[-1]  # forward and backward have the same names: the last picture of each is kept
    shown = pictures(explanation)
    for name, tensor in (*trace.gates.items(), *((f"{name} (state)", each) for name, each in trace.states.items())):
        values = tensor[0].T.numpy()  # (units, T)
        pixels = shown[name]
        assert pixels.shape == (*values.shape, 4)
        strength = np.round(255 * np.abs(values) / np.abs(values).max())
        # Units are sorted: each row of the picture is that of a unit, with the colour of its sign.
        rows = sorted(map(tuple, np.where(values < 0, -strength, strength).astype(int).tolist()))
        signs = np.where(pixels[..., 0] > pixels[..., 2], -1, 1)  # orange, blue
        assert sorted(map(tuple, (signs * pixels[..., 3].astype(int)).tolist())) == rows


@pytest.mark.parametrize("name", ["translate", "transcribe"])
def test_search_and_frames_are_shown(name: str, tmp_path: Path) -> None:
    model = untrained_model(CASES[name], tmp_path)
    example = next(iter(model.task.read(Path(model.task.dev))))
    explanation = model.explain(example, beam=name == "translate", heads=True, gates=True)
    page = explanation._repr_html_()
    assert ("<b>search</b>" in page) == bool(explanation.beam)
    assert ("probability of each token" in page) == (explanation.frames is not None)
    assert all(trace.name in page for trace, _ in explanation.gates)
    assert explanation.gates
