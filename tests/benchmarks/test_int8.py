"""The benchmark of models in int8 on tiny models: what it compares, not how fast it is."""

import pytest
import torch
from tests.benchmarks.test_translate import SMALL, interleave_once

from benchmarks import int8
from benchmarks.measure import Timing
from benchmarks.peers import ctranslate2
from benchmarks.recurrent import Shape
from seqloom.cells.lstm import LSTM
from seqloom.layers.recurrent.recurrent import Recurrent


def test_every_model_is_compared_with_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"SHAPES": (Shape(3, 1, 4, 5),), "SIZES": SMALL, "LENGTH": 3, "SAMPLED": 10, "WORDS": 11, "HIDDEN": 8}
    for name, value in settings.items():
        monkeypatch.setattr(int8, name, value)
    monkeypatch.setattr(int8, "interleave", interleave_once)
    monkeypatch.setattr(torch, "set_num_threads", lambda _: None)
    monkeypatch.setattr(ctranslate2, "installed", lambda: True)
    monkeypatch.setattr(ctranslate2, "name", lambda kind: f"CTranslate2 {kind}")
    monkeypatch.setattr(ctranslate2, "measure", lambda *_, compute_type, **__: Timing(len(compute_type), 1))
    results = list(int8.measure(quick=True))
    assert [(result.peer_name, result.ratio, result.goal) for result in results] == [
        ("our float32", 2 / 3, 2.5),
        ("our float32", 2 / 3, 2.2),
        *[("our float32", 2 / 3, 1.5), ("CTranslate2 int8", 4 / 3, 1.0)] * 2,
    ]


def test_the_copy_multiplies_in_int8() -> None:
    layer = Recurrent(LSTM(3, 4)).eval()
    other = int8.quantized(layer)
    assert isinstance(other, Recurrent)
    assert (layer.int8, other.int8) == (False, True)
