"""Generated tunes: notes of one major scale, a final tonic, the same again with the same seed."""

import random

import numpy as np

from seqloom.data.builtin.tunes import BARS, FRAMES, SCALE, TONICS, tune
from seqloom.data.readers.midi import LOWEST


def test_all_notes_belong_to_one_major_scale_and_the_end_to_its_tonic() -> None:
    for seed in range(20):
        frames = tune(random.Random(seed))  # noqa: S311
        assert frames.shape[0] == BARS * FRAMES
        classes = {int(key + LOWEST) % 12 for key in np.flatnonzero(frames.any(axis=0))}
        scales = [{(tonic + step) % 12 for step in SCALE} for tonic in TONICS]
        tonics = [tonic % 12 for tonic, scale in zip(TONICS, scales, strict=True) if classes <= scale]
        last = np.flatnonzero(frames[-FRAMES]) + LOWEST
        assert int(last.max()) % 12 in tonics
        assert frames.any(axis=1).all()


def test_the_seed_decides() -> None:
    one, same, other = (tune(random.Random(seed)) for seed in (1, 1, 2))  # noqa: S311
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)
