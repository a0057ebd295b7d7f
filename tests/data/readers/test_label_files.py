"""Files with the labels of a recording: segments in several formats, and what they mean for frames."""

from pathlib import Path

import numpy as np
import pytest

from seqloom.data.readers.label_files import OUTSIDE, frame_labels, read_segments
from seqloom.data.readers.text_files import DataError, Location
from seqloom.data.timed_text import Timed, TimedText, to_ctm, to_textgrid, to_tsv

SEGMENTS = [Timed("yes", 0.5, 1.25), Timed('say "no"', 1.25, 2.0), Timed("well", 3.5, 4.0)]
SHORT_TEXTGRID = """File type = "ooTextFile"
Object class = "TextGrid"

0
4.5
<exists>
2
"TextTier"
"clicks"
0
4.5
1
2.5
"click"
"IntervalTier"
"speech 2"
0
4.5
3
0
0.5
""
0.5
1.25
"yes"
1.25
4.5
"say ""no"" 3"
"""


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.tsv", '0.5\t1.25\tyes\n1.25\t2\tsay "no"\n3.5\t4\twell\n'),
        ("a.txt", '3.5 4.0 well\n\n0.5 1.25 yes\n1.25 2.0 say "no"\n'),  # in any order
        ("a.tsv", to_tsv(TimedText("a", 4.5, SEGMENTS, [Timed("y", 0.5, 0.6)]))),
        ("a.TextGrid", to_textgrid(TimedText("a", 4.5, SEGMENTS, [Timed("y", 0.5, 0.6)]))),
    ],
)
def test_segments(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    assert read_segments(tmp_path / name) == SEGMENTS


def test_other_layouts(tmp_path: Path) -> None:
    (tmp_path / "a.ctm").write_text(to_ctm(TimedText("a", 4.5, [SEGMENTS[0], SEGMENTS[2]], [])))
    assert read_segments(tmp_path / "a.ctm") == [SEGMENTS[0], SEGMENTS[2]]
    (tmp_path / "a.TextGrid").write_text(SHORT_TEXTGRID)
    assert read_segments(tmp_path / "a.TextGrid") == [Timed("yes", 0.5, 1.25), Timed('say "no" 3', 1.25, 4.5)]
    (tmp_path / "a.lab").write_text("up\nup\ndown\n")
    assert read_segments(tmp_path / "a.lab") == ["up", "up", "down"]
    (tmp_path / "a.lab").write_text("up up down\n")
    assert read_segments(tmp_path / "a.lab") == ["up", "up", "down"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.tsv", "0\t1\tx\n1\ty\n", r"a\.tsv:2: expected start, end and label, found '1 y'"),
        ("a.tsv", "0\t1\tx\n2\t1\ty\n", r"a\.tsv:2: the segment 'y' ends at 1 s, before it starts at 2 s"),
        ("a.tsv", "0\t1\tx\n0.5\t2\ty\n", r"a\.tsv: the segments 'x' and 'y' overlap at 0\.5 s"),
        ("a.ctm", "a 1 0.5 yes\n", r"a\.ctm:1: expected recording, channel, start, duration and word"),
        ("a.TextGrid", "0 1 2\n", r"a\.TextGrid: expected a TextGrid with a tier of intervals"),
        ("a.TextGrid", SHORT_TEXTGRID[:-20], r"a\.TextGrid: the intervals of the first tier are not complete"),
    ],
)
def test_errors_name_file_and_line(tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=message):
        read_segments(tmp_path / name)


def test_a_frame_has_the_label_of_its_centre() -> None:
    centres = (np.arange(500) * 0.01 + 0.0125).tolist()
    expected = [next((text for text, start, end in SEGMENTS if start <= at < end), OUTSIDE) for at in centres]
    assert frame_labels(Location("a", 1), SEGMENTS, centres) == tuple(expected)
    assert set(expected) == {"yes", 'say "no"', "well", OUTSIDE}


def test_times_in_samples_are_noticed() -> None:
    with pytest.raises(DataError, match=r"the first segment starts at 2400 s, but the recording ends at 0\.02 s"):
        frame_labels(Location("a", 1), [Timed("h#", 2400, 4000)], [0.01, 0.02])
