"""Music and handwriting by seqloom_runtime: the pieces and drawings of Seqloom for the same seed."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.test_seqloom_runtime import Exported

import seqloom_runtime
from seqloom.data.readers.midi import midi_bytes

SEEDS = range(1, 4)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("count", [1, 3, 8, 11])
def test_random_numbers_of_torch(seed: int, count: int) -> None:
    """Bernoulli, multinomial and normal draws, one after the other; normal ones in single precision."""
    generator, random = torch.Generator().manual_seed(seed), seqloom_runtime.TorchRandom(seed)
    draw = np.random.default_rng(seed)
    for _ in range(5):
        log_odds = draw.normal(size=(count, 7)).astype(np.float32)
        expected = torch.bernoulli((torch.from_numpy(log_odds) / 0.8).sigmoid(), generator=generator)
        assert (random.bernoulli(log_odds, 0.8) == expected.numpy()).all()
        probabilities = draw.dirichlet(np.ones(4), count).astype(np.float32)
        chosen = torch.multinomial(torch.from_numpy(probabilities), 1, generator=generator)
        assert (random.choose(probabilities) == chosen.numpy()[:, 0]).all()
        noise = torch.randn(count, 2, generator=generator).numpy().ravel()
        np.testing.assert_allclose(random.normal(2 * count), noise, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["music", "music, independent notes"])
def test_music_is_composed_as_by_seqloom(name: str, tmp_path: Path) -> None:
    model = Exported(name, tmp_path)
    runtime: Any = seqloom_runtime.load(model.file)
    prime = next(iter(model.task.read(tmp_path / "t.jsonl")))
    for seed in SEEDS:
        for count, temperature, start in ((1, 1.0, None), (3, 0.7, prime), (2, 0.0, None)):
            options: dict[str, Any] = {"count": count, "length": 30, "temperature": temperature, "seed": seed}
            expected = model.task.compose(model.module, prime=start, **options)
            given = None if start is None else start.frames
            pieces = runtime.compose(prime=given, **options)
            assert all((piece == truth).all() for piece, truth in zip(pieces, expected, strict=True))
    fitted = model.task.fitted
    assert runtime.midi(expected[0]) == midi_bytes(
        expected[0], frames_per_beat=model.task.frames_per_beat, tempo=fitted.tempo
    )
    assert len(runtime.compose()[0]) == fitted.length


@pytest.mark.parametrize("name", ["handwriting", "handwriting, no text", "handwriting, two layers"])
def test_handwriting_is_drawn_as_by_seqloom(name: str, tmp_path: Path) -> None:
    model = Exported(name, tmp_path)
    runtime: Any = seqloom_runtime.load(model.file)
    example = next(iter(model.task.read(tmp_path / "t.jsonl")))
    text = "ab" if model.task.fitted.characters else ""
    for seed in SEEDS:
        for count, bias, prime in ((1, 0.0, None), (9, 0.5, None), (2, 1.0, example)):
            options: dict[str, Any] = {"count": count, "bias": bias, "length": 25, "seed": seed}
            expected = model.task.generate_strokes(model.module, text, prime=prime, **options)
            given = None if prime is None else (prime.values, prime.text if text else "")
            drawings = runtime.draw(text, prime=given, **options)
            for drawing, truth in zip(drawings, expected, strict=True):
                assert drawing.shape == truth.shape
                # A movement depends on all before it: rounding adds up over the steps.
                np.testing.assert_allclose(drawing, truth, rtol=1e-3, atol=1e-3)


def test_wrong_inputs_are_refused(tmp_path: Path) -> None:
    (tmp_path / "music").mkdir()
    music: Any = seqloom_runtime.load(Exported("music", tmp_path / "music").file)
    for piece, message in (([[60], [200]], "200 is not a key"), ([], "no frames"), (np.full((2, 88), 3), "0 and 1")):
        with pytest.raises(seqloom_runtime.ModelError, match=message):
            music.predict([piece])
    with pytest.raises(seqloom_runtime.ModelError, match="temperature ≥ 0"):
        music.compose(temperature=-1)
    pen: Any = seqloom_runtime.load(Exported("handwriting", tmp_path).file)
    with pytest.raises(seqloom_runtime.ModelError, match="this model writes texts"):
        pen.draw()
    with pytest.raises(seqloom_runtime.ModelError, match="have no '7'"):
        pen.draw("7")
    with pytest.raises(seqloom_runtime.ModelError, match="0 or 1 as the third number"):
        pen.predict([([[1.0, 2.0, 0.5]], "a")])
