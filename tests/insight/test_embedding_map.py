"""Words as points: the plane against the singular value decomposition; labels that do not overlap."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqloom.insight.embedding_map import (
    _overlap,
    draw_embedding_map,
    embedding_map,
    place_labels,
    principal_components,
)


@pytest.mark.parametrize(("rows", "width"), [(30, 5), (4, 60), (2, 3), (5, 5)])
def test_the_plane_is_that_of_the_singular_values(rows: int, width: int) -> None:
    vectors = np.random.default_rng(rows).normal(size=(rows, width))
    result, shares = principal_components(vectors)
    left, values, _ = np.linalg.svd(vectors - vectors.mean(axis=0), full_matrices=False)
    expected = (left * values)[:, :2]
    np.testing.assert_allclose(np.abs(result), np.abs(expected), atol=1e-7)  # roots of values that should be zero
    np.testing.assert_allclose(shares, (values**2 / (values**2).sum())[:2], atol=1e-12)
    assert (result.max(axis=0) >= -result.min(axis=0) - 1e-7).all()


def test_one_number_has_one_direction() -> None:
    result, shares = principal_components(np.array([[1.0], [3.0]]))
    np.testing.assert_allclose(np.abs(result), [[1, 0], [1, 0]])
    assert shares.tolist() == [1, 0]


@given(st.lists(st.tuples(st.integers(0, 200), st.integers(0, 100), st.integers(5, 90)), min_size=1, max_size=15))
def test_labels_do_not_overlap(labels: list[tuple[int, int, int]]) -> None:
    points = np.array([(x, y) for x, y, _ in labels], np.float64)
    sizes = np.array([(width, 12) for _, _, width in labels], np.float64)
    corners = place_labels(points, sizes)
    boxes = [(*low, *high) for low, high in zip(corners.tolist(), (corners + sizes).tolist(), strict=True)]
    for index, box in enumerate(boxes):
        assert not any(_overlap(box, other) for other in boxes[:index])
        assert not any(box[0] < x < box[2] and box[1] < y < box[3] for x, y in points.tolist())


def test_plot(tmp_path: Path) -> None:
    vectors = np.random.default_rng(0).normal(size=(8, 6))
    vectors[3] = vectors[4]  # at the same point
    words = embedding_map([f"$word{number}" for number in range(8)], vectors)
    assert (words.nearest[3], words.nearest[4]) == ("$word4", "$word3")
    assert words.similarities[3] == pytest.approx(1)
    draw_embedding_map(words, tmp_path / "new" / "words.png")
    assert (tmp_path / "new" / "words.png").read_bytes().startswith(b"\x89PNG")


def test_an_analogy_is_the_fourth_corner_of_a_parallelogram(tmp_path: Path) -> None:
    words = ["king", "queen", "man", "woman", "apple"]
    vectors = np.random.default_rng(3).normal(size=(5, 8))
    made = embedding_map(words, vectors, analogies=[("king", "man", "woman", "queen")])
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    _, _, directions = np.linalg.svd(units - units.mean(axis=0), full_matrices=False)
    total = units[0] - units[2] + units[3] - units.mean(axis=0)  # in all eight dimensions, projected afterwards
    (analogy,) = made.analogies
    np.testing.assert_allclose(np.abs(analogy.point), np.abs(directions[:2] @ total), atol=1e-9)
    draw_embedding_map(made, tmp_path / "map.svg")
    assert "king − man + woman ≈ queen" in (tmp_path / "map.svg").read_text()
