"""Standard MIDI files: notes as frames of the 88 keys of a piano, and frames as a file to play."""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqloom import files
from seqloom.data.readers.file_lists import ContentError

LOWEST, KEYS = 21, 88  # MIDI number of the lowest key (A0) of a piano, and how many there are
SUFFIXES = (".mid", ".midi", ".kar")
NAMES = ("C", "C#", "D", "D#", "E", "F", "F#", "G", "G#", "A", "A#", "B")
TEMPO = 120.0  # quarter notes per minute, of a file that says nothing
HEADER = 14  # bytes at the start of a file
DRUMS = 9  # channel of percussion, whose numbers are no pitches
MAX_FRAMES = 1_000_000
DIVISION = 480  # ticks per quarter note of files that are written
VELOCITY = 80  # of notes that are written
NOTE_OFF, NOTE_ON, SYSEX, ESCAPE, META = 0x80, 0x90, 0xF0, 0xF7, 0xFF
SET_TEMPO, END_OF_TRACK = 0x51, 0x2F
DATA_BYTES = {0x80: 2, 0x90: 2, 0xA0: 2, 0xB0: 2, 0xC0: 1, 0xD0: 1, 0xE0: 2}  # of channel messages, by their status

Frames = NDArray[np.uint8]  # (T, 88), 1 where a key sounds


class MidiNote(NamedTuple):
    """A note of any channel but that of percussion."""

    start: int  # ticks
    end: int  # ticks
    pitch: int  # MIDI number; 60 is middle C


class MidiSong(NamedTuple):
    """The notes of a file."""

    notes: list[MidiNote]
    division: int  # ticks per quarter note
    tempo: float  # quarter notes per minute, at the start


class _Event(NamedTuple):
    tick: int
    status: int
    data: bytes  # of a meta event, its type first


def note_name(key: int) -> str:
    """The name of a key of the piano, such as C4."""
    octave, place = divmod(key + LOWEST, 12)
    return f"{NAMES[place]}{octave - 1}"


def parse_midi(data: bytes) -> MidiSong:
    """The notes of a Standard MIDI File; ContentError if it is none."""
    if data[:4] == b"RIFF":
        raise ContentError("a RIFF file, expected a Standard MIDI File, which starts with MThd")
    if data[:4] != b"MThd":
        raise ContentError("not a MIDI file: it does not start with MThd")
    if len(data) < HEADER:
        raise ContentError(f"the file is truncated: it has {len(data)} bytes, and the header alone takes {HEADER}")
    size, kind, _, division = struct.unpack(">IHHH", data[4:HEADER])
    if 8 + size > len(data):
        raise ContentError(f"the file is truncated: a header of {size:,} bytes has {len(data) - 8:,}")
    if kind > 1:
        raise ContentError(f"MIDI format {kind}: expected 0 or 1, in which all tracks play together")
    if not 0 < division < 1 << 15:
        raise ContentError("times in seconds (SMPTE) are not supported; expected ticks per quarter note")
    notes: list[MidiNote] = []
    tempos: list[tuple[int, float]] = []
    for track in _tracks(data, 8 + size):
        _read_track(track, notes, tempos)
    return MidiSong(sorted(notes), division, min(tempos, default=(0, TEMPO))[1])


def _tracks(data: bytes, place: int) -> Iterator[bytes]:
    while place < len(data):
        header = data[place : place + 8]
        if len(header) < 8:
            return  # padding at the end
        size = int.from_bytes(header[4:])
        place += 8
        if place + size > len(data):
            raise ContentError(f"the file is truncated: a part of {size:,} bytes has {len(data) - place:,}")
        if header[:4] == b"MTrk":
            yield data[place : place + size]
        place += size


def _read_track(track: bytes, notes: list[MidiNote], tempos: list[tuple[int, float]]) -> None:
    sounding: dict[tuple[int, int], int] = {}  # start of a note, by its channel and pitch
    tick = 0
    for event in _events(track):
        tick = event.tick
        kind, channel = event.status & 0xF0, event.status & 0x0F
        if event.status == META:
            if event.data[0] == SET_TEMPO and len(event.data) == 4 and any(event.data[1:]):
                tempos.append((tick, 60e6 / int.from_bytes(event.data[1:])))
        elif kind in (NOTE_OFF, NOTE_ON) and channel != DRUMS:
            pitch, velocity = event.data
            start = sounding.pop((channel, pitch), None)
            if start is not None:
                notes.append(MidiNote(start, tick, pitch))
            if kind == NOTE_ON and velocity:
                sounding[channel, pitch] = tick
    notes.extend(MidiNote(start, tick, pitch) for (_, pitch), start in sounding.items())


def _events(track: bytes) -> Iterator[_Event]:
    place, tick, status = 0, 0, 0
    while place < len(track):
        delta, place = _quantity(track, place)
        tick += delta
        first = _byte(track, place)
        if first & 0x80:
            status, place = first, place + 1
        if status in (SYSEX, ESCAPE, META):
            start = place
            place += status == META
            size, place = _quantity(track, place)
            if place + size > len(track):
                raise ContentError("damaged MIDI data: an event is longer than its track")
            kind = track[start : start + 1] if status == META else b""
            yield _Event(tick, status, kind + track[place : place + size])
            place += size
            if status == META and kind[0] == END_OF_TRACK:
                return
            status = 0
            continue
        if status & 0xF0 not in DATA_BYTES:
            raise ContentError(f"damaged MIDI data: unexpected status byte {status:#04x} at byte {place} of a track")
        count = DATA_BYTES[status & 0xF0]
        data = track[place : place + count]
        if len(data) < count or max(data) > 0x7F:
            raise ContentError(f"damaged MIDI data: a message is cut off at byte {place} of a track")
        yield _Event(tick, status, data)
        place += count


def _byte(track: bytes, place: int) -> int:
    if place >= len(track):
        raise ContentError("damaged MIDI data: a track ends inside an event")
    return track[place]


def _quantity(track: bytes, place: int) -> tuple[int, int]:
    """A number of variable length, and the place after it."""
    value = 0
    for length in range(4):
        byte = _byte(track, place + length)
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, place + length + 1
    raise ContentError("damaged MIDI data: a number of more than four bytes")


def to_frames(song: MidiSong, frames_per_beat: int) -> Frames:
    """The keys that sound in each frame, from the first note on; a note sounds in one frame at least."""
    on_piano = [note for note in song.notes if LOWEST <= note.pitch < LOWEST + KEYS]
    if not on_piano:
        raise ContentError("no notes within the 88 keys of a piano")
    per_tick = frames_per_beat / song.division
    spans = [(round(note.start * per_tick), round(note.end * per_tick), note.pitch) for note in on_piano]
    first, last = min(start for start, _, _ in spans), max(max(end, start + 1) for start, end, _ in spans)
    if last - first > MAX_FRAMES:
        raise ContentError(f"{last - first:,} frames, expected at most {MAX_FRAMES:,}: the times are damaged")
    frames = np.zeros((last - first, KEYS), dtype=np.uint8)
    for start, end, pitch in spans:
        frames[start - first : max(end, start + 1) - first, pitch - LOWEST] = 1
    return frames


def midi_bytes(frames: Frames, *, frames_per_beat: int, tempo: float = TEMPO) -> bytes:
    """A Standard MIDI File in which a key that sounds in successive frames is one note."""
    padded = np.pad(np.asarray(frames, dtype=np.int8), ((1, 1), (0, 0)))
    changes = np.diff(padded, axis=0)  # 1 where a note starts, -1 where it ends
    microseconds = round(60e6 / tempo)
    track = bytearray(b"\x00\xff\x51\x03" + microseconds.to_bytes(3))
    before = 0
    for frame, key in zip(*np.nonzero(changes), strict=True):
        tick = round(int(frame) * DIVISION / frames_per_beat)
        starts = changes[frame, key] > 0
        track += _variable_length(tick - before)
        track += bytes((NOTE_ON, int(key) + LOWEST, VELOCITY if starts else 0))
        before = tick
    track += _variable_length(round(len(frames) * DIVISION / frames_per_beat) - before) + b"\xff\x2f\x00"
    return b"MThd" + struct.pack(">IHHH", 6, 0, 1, DIVISION) + b"MTrk" + struct.pack(">I", len(track)) + bytes(track)


def _variable_length(value: int) -> bytes:
    parts = [value & 0x7F]
    while value := value >> 7:
        parts.append(value & 0x7F | 0x80)
    return bytes(reversed(parts))


def write_midi(path: Path, frames: Frames, *, frames_per_beat: int, tempo: float = TEMPO) -> None:
    """Write frames as a file that can be played."""
    with files.replacing(path) as file:
        file.write(midi_bytes(frames, frames_per_beat=frames_per_beat, tempo=tempo))
