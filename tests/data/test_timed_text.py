"""Files with times: what small readers of the formats read back is what was written."""

import re
from itertools import pairwise

import pytest

from seqloom.data.timed_text import Timed, TimedText, to_ctm, to_srt, to_textgrid, to_tsv, to_vtt

WORDS = [
    Timed('say "hi"', 0.25, 0.5),
    Timed("<b>", 0.5, 0.875),
    Timed("end", 3661.5, 3661.75),  # after a pause of an hour
]
TOKENS = [Timed("s", 0.25, 0.375), Timed(" ", 0.375, 0.5), Timed("<", 0.5, 0.875), Timed("e", 3661.5, 3661.75)]
TEXT = TimedText("my clip.wav", 3662.0, WORDS, TOKENS)


def seconds(clock: str) -> float:
    hours, minutes, rest = clock.replace(",", ".").split(":")
    return int(hours) * 3600 + int(minutes) * 60 + float(rest)


def read_textgrid(text: str) -> dict[str, list[Timed]]:
    assert text.startswith('File type = "ooTextFile"\nObject class = "TextGrid"\n')
    tiers = {}
    for part in text.split("item [")[2:]:
        (name,) = re.findall(r'name = "(.*)"', part)
        rows = re.findall(r'xmin = (\S+)\n +xmax = (\S+)\n +text = "(.*)"\n', part)
        (count,) = re.findall(r"intervals: size = (\d+)", part)
        assert len(rows) == int(count)
        tiers[name] = [Timed(label.replace('""', '"'), float(start), float(end)) for start, end, label in rows]
    return tiers


def test_textgrid_covers_the_recording() -> None:
    tiers = read_textgrid(to_textgrid(TEXT))
    assert list(tiers) == ["words", "tokens"]
    for parts, tier in ((WORDS, tiers["words"]), (TOKENS, tiers["tokens"])):
        assert [each for each in tier if each.text] == parts
        assert (tier[0].start, tier[-1].end) == (0, 3662)
        assert all(before.end == after.start for before, after in pairwise(tier))
    assert [each.text for each in tiers["words"]] == ["", 'say "hi"', "<b>", "", "end", ""]


def test_times_end_with_the_recording() -> None:
    words, tokens = [Timed("no", 0.1, 0.6)], [Timed("n", 0.1, 0.56), Timed("o", 0.56, 0.6)]
    text = TimedText.within(0.596, words, tokens, name="x")  # the last frame reaches beyond the end
    assert [line.split("\t")[1] for line in to_tsv(text).splitlines()] == ["0.596", "0.560", "0.596"]
    assert to_ctm(text) == "x 1 0.100 0.496 no\n"
    assert "xmax = 0.596\n" in to_textgrid(text)
    assert "xmax = 0.6\n" not in to_textgrid(text)
    for unknown in (0.0, 0.7):
        same = TimedText.within(unknown, words, tokens, name="x")
        assert (same.words, same.tokens) == (words, tokens)


def test_an_empty_transcript_is_one_empty_interval() -> None:
    tiers = read_textgrid(to_textgrid(TimedText("x", 2.0, [], [])))
    assert tiers == {"words": [Timed("", 0, 2)], "tokens": [Timed("", 0, 2)]}
    assert [write(TimedText("x", 2.0, [], [])) for write in (to_ctm, to_srt, to_tsv, to_vtt)] == [
        "",
        "",
        "",
        "WEBVTT\n",
    ]


def test_ctm_has_a_line_for_each_word() -> None:
    rows = [line.split(" ") for line in to_ctm(TEXT).splitlines()]
    assert [(name, channel, word) for name, channel, _, _, word in rows] == [
        ("my_clip.wav", "1", 'say_"hi"'),
        ("my_clip.wav", "1", "<b>"),
        ("my_clip.wav", "1", "end"),
    ]
    assert [(float(start), float(start) + float(length)) for _, _, start, length, _ in rows] == [
        (word.start, word.end) for word in WORDS
    ]


def test_subtitles_end_at_pauses() -> None:
    blocks = [block.split("\n") for block in to_srt(TEXT).strip().split("\n\n")]
    assert [(number, line) for number, _, line in blocks] == [("1", 'say "hi" <b>'), ("2", "end")]
    times = [tuple(map(seconds, times.split(" --> "))) for _, times, _ in blocks]
    assert times == [(0.25, 0.875), (3661.5, 3661.75)]
    assert blocks[1][1] == "01:01:01,500 --> 01:01:01,750"


def test_vtt_has_the_time_of_each_word() -> None:
    head, *blocks = to_vtt(TEXT).strip().split("\n\n")
    assert head == "WEBVTT"
    times, line = blocks[0].split("\n")
    assert [seconds(clock) for clock in times.split(" --> ")] == [0.25, 0.875]
    assert line == 'say "hi" <00:00:00.500>&lt;b&gt;'
    assert len(blocks) == 2


def test_tsv_has_words_before_their_tokens() -> None:
    rows = [line.split("\t") for line in to_tsv(TEXT).splitlines()]
    assert [(kind, text) for _, _, kind, text in rows] == [
        ("word", 'say "hi"'),
        ("token", "s"),
        ("token", " "),
        ("word", "<b>"),
        ("token", "<"),
        ("word", "end"),
        ("token", "e"),
    ]
    assert rows[0][:2] == ["0.250", "0.500"]


@pytest.mark.parametrize("gap", [0.1, 0.7])
def test_long_subtitles_are_split(gap: float) -> None:
    words = [Timed("word", index * (0.2 + gap), index * (0.2 + gap) + 0.2) for index in range(20)]
    lines = to_srt(TimedText("", 0.0, words, [])).strip().split("\n\n")
    assert all(len(line.split("\n")[2]) <= 42 for line in lines)
    assert len(lines) == (3 if gap < 0.6 else 20)
