"""Synthetic speech: a stand-in for espeak-ng with known output, and espeak-ng itself where it is installed."""

import shutil
import stat
import sys
import wave
from pathlib import Path

import numpy as np
import pytest

from seqloom.data import synthetic_speech
from seqloom.data.readers.text_files import DataError
from seqloom.data.synthetic_speech import TextToSpeak, Voice, choose_voices, read_texts, speak, synthesize

VOICE = Voice("en-gb", "Andy", 50, 150)
STAND_IN = """#!{python}
import math
import sys
from array import array

LIST = '''Pty Language       Age/Gender VoiceName          File                 Other Languages
 2  en-gb           --/M      English_(Great_Britain) gmw/en               (en 2)
 5  en-us           --/F      us-mbrola-1        mb/mb-us1            (en 8)
 2  en-029          --/M      English_(Caribbean) gmw/en-029           (en 10)
 5  de              --/M      German             gmw/de
'''
VARIANTS = LIST.splitlines()[0] + '''
 5  variant         --/M      Andy               !v/Andy
 5  variant         --/M      Mr_Serious         !v/Mr serious
 5  variant         --/M      Robosoft           !v/robosoft
'''
if sys.argv[1].startswith("--voices"):
    print(VARIANTS if sys.argv[1].endswith("=variant") else LIST)
    sys.exit()
text = sys.stdin.read()
if text == "refuse":
    sys.exit("no such voice")
seconds = len(text) / 10
tone = [round(math.sin(2 * math.pi * 500 * step / 16000) * 16000) for step in range(int(16000 * seconds))]
samples = array("h", [0] * 1600 + (tone if text.strip("?") else []) + [0] * 3200)
header = bytearray(44)
header[24:28] = (16000).to_bytes(4, "little")
sys.stdout.buffer.write(bytes(header) + samples.tobytes())
"""


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bin" / "espeak-ng"
    program.parent.mkdir()
    program.write_text(STAND_IN.format(python=sys.executable))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(program.parent))


@pytest.mark.skipif(sys.platform == "win32", reason="the stand-in is a script with a #! line")
@pytest.mark.usefixtures("stand_in")
class TestWithStandIn:
    def test_samples_are_resampled_and_without_silence(self) -> None:
        samples = speak("five5", VOICE, rate=8000)  # a tone of 0.5 s
        assert abs(len(samples) - 4000) < 40
        tone = np.sin(2 * np.pi * 500 * np.arange(4000) / 8000) * 16000 / 32768
        shifts = [np.abs(samples[shift:3900] - tone[: 3900 - shift]).max() for shift in range(20)]
        shifts += [np.abs(samples[: 3900 - shift] - tone[shift:3900]).max() for shift in range(20)]
        assert min(shifts) < 0.01  # the filter of the resampling rounds the ends of the tone

    def test_voices_are_all_pairs_of_accents_and_natural_variants(self) -> None:
        voices = choose_voices(10, accents="en", seed=1)
        pairs = {("en-gb", "Andy"), ("en-gb", "Mr serious"), ("en-029", "Andy"), ("en-029", "Mr serious")}
        assert {voice[:2] for voice in voices[:4]} == {voice[:2] for voice in voices[4:8]} == pairs
        assert len(set(voices)) == 10
        assert voices == choose_voices(10, accents="en", seed=1) != choose_voices(10, accents="en", seed=2)
        assert choose_voices(1, accents="de", seed=1)[0].accent == "de"

    def test_a_list_beside_the_folder_names_all_recordings(self, tmp_path: Path) -> None:
        texts = [TextToSpeak("zero", "0"), TextToSpeak("one", "1")]
        voices = [VOICE, Voice("en-029", "Mr serious", 30, 120)]
        path = synthesize(texts, tmp_path / "data" / "voices", voices=voices, rate=8000)
        assert path == tmp_path / "data" / "voices.tsv"
        rows = [line.split("\t") for line in path.read_text().splitlines()]
        assert [label for _, label in rows] == ["0", "1", "0", "1"]
        assert rows[3][0] == "voices/en-029+Mr_serious-30-120/0002.wav"
        with wave.open(str(path.parent / rows[3][0])) as sound:
            assert (sound.getframerate(), sound.getnchannels()) == (8000, 1)
            assert abs(sound.getnframes() - 2400) < 40  # "one": 0.3 s
        with pytest.raises(ValueError, match=r"voices\.tsv: already exists, and data are never overwritten"):
            synthesize(texts, tmp_path / "data" / "voices", voices=voices)

    @pytest.mark.parametrize(("text", "message"), [("refuse", "no such voice"), ("???", r"says nothing for '\?\?\?'")])
    def test_failures_say_what_happened(self, text: str, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            speak(text, VOICE, rate=8000)

    def test_an_unknown_language_lists_the_known_ones(self) -> None:
        with pytest.raises(ValueError, match=r"no voice for the language 'xx' \(known: de, en-029, en-gb\)"):
            choose_voices(1, accents="xx", seed=1)


def test_a_missing_program_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ValueError, match=r"espeak-ng is not installed.*apt install espeak-ng"):
        choose_voices(1, accents="en", seed=1)


def test_texts_with_and_without_labels(tmp_path: Path) -> None:
    path = tmp_path / "texts.txt"
    path.write_text("zero\t0\ncall me back\n")
    assert read_texts(path) == [TextToSpeak("zero", "0"), TextToSpeak("call me back", "call me back")]
    path.write_text("zero\t0\n\t1\n")
    with pytest.raises(DataError, match=r"texts.txt:2: expected a text"):
        read_texts(path)
    path.write_text("")
    with pytest.raises(DataError, match="contains no text"):
        read_texts(path)


@pytest.mark.skipif(shutil.which(synthetic_speech.PROGRAM) is None, reason="espeak-ng is not installed")
def test_espeak_ng_speaks_slower_at_a_lower_speed() -> None:
    (voice,) = choose_voices(1, accents="en", seed=1)
    slow, fast = (speak("seven", voice._replace(speed=speed), rate=8000) for speed in (100, 220))
    assert 8000 > len(slow) > 1.3 * len(fast) > 1000
    assert np.abs(slow).max() > 0.05
