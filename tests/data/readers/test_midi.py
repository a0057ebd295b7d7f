"""MIDI files: bytes written by hand after the specification, damaged ones, and what is written."""

import contextlib
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom.data.readers.file_lists import ContentError
from seqloom.data.readers.midi import (
    KEYS,
    LOWEST,
    MidiNote,
    MidiSong,
    midi_bytes,
    note_name,
    parse_midi,
    to_frames,
    write_midi,
)

C4, E4, G4 = 60, 64, 67


def midi(*tracks: bytes, kind: int = 1, division: int = 96) -> bytes:
    parts = [b"MThd", struct.pack(">IHHH", 6, kind, len(tracks), division)]
    for track in tracks:
        parts += [b"MTrk", struct.pack(">I", len(track)), track]
    return b"".join(parts)


END = b"\x00\xff\x2f\x00"
TEMPO_TRACK = b"\x00\xff\x51\x03\x0f\x42\x40" + END  # one second for each quarter note
MELODY = (
    b"\x00\xff\x03\x05Piano"  # name of the track
    b"\x00\xc0\x00"  # a program change, which has one data byte
    b"\x00\x90\x3c\x40"  # C4
    b"\x60\x3c\x00"  # after 96 ticks, running status, velocity 0: the end of C4
    b"\x00\x40\x40"  # E4
    b"\x81\x40\x80\x40\x00"  # after 192 ticks (two bytes): note off
    b"\x00\xf0\x03\x01\x02\xf7"  # system exclusive
    b"\x00\x93\x43\x7f"  # G4 on channel 4, which never ends
    b"\x30" + END[1:]  # the track ends after 48 ticks
)
DRUMS = b"\x00\x99\x3c\x40\x60\x89\x3c\x40" + END


def test_notes_of_all_tracks_but_percussion() -> None:
    song = parse_midi(midi(TEMPO_TRACK, MELODY, DRUMS))
    assert song.notes == [MidiNote(0, 96, C4), MidiNote(96, 288, E4), MidiNote(288, 336, G4)]
    assert song.division == 96
    assert song.tempo == pytest.approx(60)


def test_frames_start_with_the_first_note() -> None:
    notes = [MidiNote(192, 288, C4), MidiNote(192, 200, E4), MidiNote(240, 288, 12)]
    frames = to_frames(MidiSong(notes, 96, 120.0), 2)
    assert [np.flatnonzero(frame).tolist() for frame in frames] == [[C4 - LOWEST, E4 - LOWEST], [C4 - LOWEST]]


def test_unknown_parts_are_skipped() -> None:
    whole = midi(MELODY)
    assert parse_midi(whole[:14] + b"XFIH\x00\x00\x00\x02ab" + whole[14:]).notes == parse_midi(whole).notes


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not a MIDI file"),
        (b"RIFF\x00\x00\x00\x00RMID", "a RIFF file"),
        (b"hello, this is text", "does not start with MThd"),
        (b"MThdxxxx", "the file is truncated: it has 8 bytes, and the header alone takes 14"),
        (b"MThdxxxx" + midi(MELODY)[8:], "MIDI format|the file is truncated: a header of 2,021,161,080 bytes has"),
        (midi(MELODY, kind=2), "MIDI format 2"),
        (midi(MELODY, division=0xE728), "SMPTE"),
        (midi(MELODY)[:-5], "the file is truncated: a part of"),
        (midi(b"\x00\x90\x3c"), "a message is cut off"),
        (midi(b"\x00\x3c\x40"), "unexpected status byte"),
        (midi(b"\x00\xff\x03\x7fPiano"), "longer than its track"),
        (midi(b"\xff\xff\xff\xff\xff"), "more than four bytes"),
        (midi(b"\x00"), "ends inside an event"),
    ],
)
def test_damaged_files(data: bytes, message: str) -> None:
    with pytest.raises(ContentError, match=message):
        parse_midi(data)


@settings(deadline=None)
@given(st.integers(0, len(midi(TEMPO_TRACK, MELODY)) - 1), st.integers(0, 255))
def test_any_byte_may_be_wrong(place: int, value: int) -> None:
    data = bytearray(midi(TEMPO_TRACK, MELODY))
    data[place] = value
    with contextlib.suppress(ContentError):
        assert to_frames(parse_midi(bytes(data)), 4).any()


def test_what_is_written() -> None:
    frames = np.zeros((3, KEYS), dtype=np.uint8)
    frames[:2, C4 - LOWEST] = 1
    frames[1, E4 - LOWEST] = 1
    track = (
        b"\x00\xff\x51\x03\x07\xa1\x20"  # 500,000 microseconds for each quarter note
        b"\x00\x90\x3c\x50"
        b"\x81\x70\x90\x40\x50"  # after 240 of 480 ticks
        b"\x81\x70\x90\x3c\x00\x00\x90\x40\x00"
        b"\x81\x70\xff\x2f\x00"
    )
    assert midi_bytes(frames, frames_per_beat=2) == midi(track, kind=0, division=480)


def test_names() -> None:
    assert [note_name(key) for key in (0, C4 - LOWEST, KEYS - 1)] == ["A0", "C4", "C8"]


@settings(deadline=None, max_examples=30)
@given(st.lists(st.sets(st.integers(0, KEYS - 1), min_size=1, max_size=4), min_size=1, max_size=20), st.integers(1, 9))
def test_what_is_written_is_read_again(keys: list[set[int]], frames_per_beat: int) -> None:
    frames = np.zeros((len(keys), KEYS), dtype=np.uint8)
    for row, chord in enumerate(keys):
        frames[row, list(chord)] = 1
    song = parse_midi(midi_bytes(frames, frames_per_beat=frames_per_beat, tempo=90))
    assert np.array_equal(to_frames(song, frames_per_beat), frames)
    assert song.tempo == pytest.approx(90, rel=1e-5)


def test_a_file_is_written_completely(tmp_path: Path) -> None:
    write_midi(tmp_path / "a.mid", np.eye(4, KEYS, dtype=np.uint8), frames_per_beat=1)
    assert len(parse_midi((tmp_path / "a.mid").read_bytes()).notes) == 4
