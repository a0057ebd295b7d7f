"""Pen strokes as lines of Braille characters, for a terminal."""

import numpy as np

from seqloom.insight.drawing import Drawing

DOTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])  # of a Braille character, by row and column
BRAILLE = 0x2800


def stroke_lines(
    drawing: Drawing,
    *,
    width: int = 72,  # characters, at most
    height: int = 8,  # lines of text, at most
) -> list[str]:
    """A drawing as text: each character shows 4 × 2 dots."""
    lines = drawing.lines()
    if not lines:
        return []
    path = np.concatenate(lines)
    low, high = path.min(axis=0), path.max(axis=0)
    size = np.maximum(high - low, 1e-6)
    scale = min((2 * width - 1) / size[0], (4 * height - 1) / size[1])
    columns, rows = np.floor(size * scale).astype(int) + 1
    dots = np.zeros((-(-rows // 4) * 4, -(-columns // 2) * 2), dtype=bool)
    for line in lines:
        for start, end in zip(line, np.concatenate([line[1:], line[-1:]]), strict=True):
            count = int(np.ceil(np.abs(end - start).max() * scale * 2)) + 1
            points = np.linspace(start, end, count)
            x = ((points[:, 0] - low[0]) * scale).astype(int)
            y = ((high[1] - points[:, 1]) * scale).astype(int)
            dots[np.clip(y, 0, len(dots) - 1), np.clip(x, 0, dots.shape[1] - 1)] = True
    cells = dots.reshape(len(dots) // 4, 4, dots.shape[1] // 2, 2).transpose(0, 2, 1, 3)
    codes = BRAILLE + (cells * DOTS).sum(axis=(2, 3))
    return ["".join(map(chr, row)).rstrip(chr(BRAILLE)) for row in codes.tolist()]
