"""Generated words: strokes of their letters, no word in two parts."""

import json
import random

import numpy as np

from seqloom.data.builtin.pen_strokes import CONSONANTS, LETTERS, VOWELS, generate, write


def test_every_letter_of_a_word_can_be_written() -> None:
    assert set(CONSONANTS + VOWELS) <= set(LETTERS)


def test_parts_share_no_word() -> None:
    words = {
        split: {json.loads(line)["text"] for line in generate(60, split, seed=1)} for split in ("train", "dev", "test")
    }
    assert not words["train"] & words["dev"]
    assert not words["train"] & words["test"]
    assert not words["dev"] & words["test"]


def test_the_pen_is_lifted_after_each_line() -> None:
    strokes = write("pit", random.Random(1))  # noqa: S311
    lines = [line for letter in "pit" for line in LETTERS[letter].split("|")]
    assert strokes[:, 2].sum() == len(lines)
    assert strokes[-1, 2] == 1
    assert strokes[0].tolist() == [0, 0, 0]
    path = np.cumsum(strokes[:, :2], axis=0)
    assert path[-1, 0] > path[0, 0]  # from left to right
