"""Convert data sets to the files that configurations in benchmarks/configs read; writes to benchmarks/data."""

import gzip
import io
import json
import os
import re
import tarfile
import wave
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqloom.data.builtin import datasets
from seqloom.data.recombination import recombine_file
from seqloom.models.ngram.arpa import write_arpa
from seqloom.models.ngram.kneser_ney import estimate

LETTER_SIZE, LETTER_REST = 40.0, 0.05  # of character_trajectories: the usual height, and the speed of a pen at rest
FOLDER = Path("benchmarks/data")
SPEAKERS = ("george", "jackson", "lucas", "nicolas", "yweweler")
VOICES, STRINGS_PER_VOICE = 300, 3  # synthetic, beside the speakers of fsdd
CONLL2000_TEST = 2012  # the last lines of PTB (Wall Street Journal, section 20) are the test sentences of conll2000
Samples = NDArray[np.int16]


def data_file(name: str) -> Path:
    """A file in the folder of data sets, ``SEQLOOM_DATA``."""
    if "SEQLOOM_DATA" not in os.environ:
        raise SystemExit("SEQLOOM_DATA is not set; set it to the folder of the data sets")
    return Path(os.environ["SEQLOOM_DATA"], name)


def _lines(name: str) -> list[str]:
    return [line for line in data_file(name).read_text().splitlines() if line.strip()]


def pronunciations() -> None:
    """The dev words of CMUdict that do not occur in its training data."""
    train, dev = (
        gzip.decompress(data_file(f"cmudict_g2p/cmudict-0.7b.train-dev-{part}-21.gz").read_bytes())
        .decode()
        .splitlines()
        for part in (20, 1)
    )
    known = {line.split()[0] for line in train}
    _write("cmudict_unseen.txt", (line for line in dev if line.split()[0] not in known))


def names() -> None:
    """Names by country: a folder with one file per language."""
    with tarfile.open(data_file("names_by_country/names.tar.gz")) as archive:
        archive.extractall(FOLDER, filter="data")


def omniglot() -> None:
    """Drawings of omniglot_strokes with y upwards, in the format of the task handwriting."""
    from seqloom.data.readers.recordings import write_npz

    arrays = np.load(data_file("omniglot_strokes/omniglot_stroke3.npz"))
    for part, split in (("train", "train"), ("valid", "dev"), ("test", "test")):
        points = arrays[f"{part}_strokes"].astype(np.float32) * np.array([1, -1, 1], dtype=np.float32)
        write_npz(FOLDER / f"omniglot_{split}.npz", np.split(points, np.cumsum(arrays[f"{part}_lengths"])[:-1]))


def music() -> None:
    """Polyphonic music: MATLAB cell arrays converted to .npz files."""
    from scipy.io import loadmat

    from seqloom.data.readers.vectors import write_npz

    for name, file in (("jsb", "JSB_Chorales"), ("nottingham", "Nottingham")):
        matrices = loadmat(data_file(f"poly_music/{file}.mat"))
        for split in ("train", "valid", "test"):
            pieces = [piece.astype("float32") for piece in matrices[f"{split}data"][0]]
            write_npz(FOLDER / f"{name}_{split}.npz", pieces, None)


def speech() -> None:
    """AN4: transcripts, file lists and features in one folder, with every tenth training speaker held out for dev."""
    for part in ("train", "test"):
        with tarfile.open(data_file(f"an4_mfcc/an4_{part}_mfc.tar.gz")) as archive:
            archive.extractall(FOLDER / "an4", filter="data")
    texts, files = (
        {part: data_file(f"an4_mfcc/an4_{part}.{kind}").read_text().splitlines() for part in ("train", "test")}
        for kind in ("transcription", "fileids")
    )
    speakers = [Path(name).parent.name for name in files["train"]]
    held_out = set(sorted(set(speakers))[4::10])
    for part, is_dev in (("train", False), ("dev", True)):
        selected = [number for number, speaker in enumerate(speakers) if (speaker in held_out) is is_dev]
        _write(f"an4/{part}.transcription", (texts["train"][number] for number in selected))
        _write(f"an4/{part}.fileids", (files["train"][number] for number in selected))
    _write("an4/test.transcription", texts["test"])
    _write("an4/test.fileids", files["test"])
    dictionary = _lines("an4_mfcc/an4.dic")
    words = sorted({line.split()[0].partition("(")[0] for line in dictionary})
    _write("an4/words.txt", words)
    spoken = (line for line in dictionary if line.split()[0] != "A")  # A(2) is the name of the letter, which is meant
    _write("an4/pronunciations.dic", (f"A {line[4:]}" if line.startswith("A(2)") else line for line in spoken))
    _write_ngram(Path("an4/words.arpa"), words, (FOLDER / "an4/train.transcription").read_text().splitlines())


def _write_ngram(name: Path, words: list[str], texts: list[str]) -> None:
    """Estimate a 3-gram from transcripts, each followed by the name of its recording in parentheses."""
    names = ["<unk>", "<s>", "</s>", *words]
    numbers = {word: number for number, word in enumerate(names)}
    sentences = [[numbers.get(word, 0) for word in text.rpartition(" (")[0].split()] for text in texts]
    write_arpa(estimate(sentences, order=3, start=1, end=2, vocabulary=len(names)), names, FOLDER / name)


def yes_and_no() -> None:
    """Recordings of eight words each, transcribed by their file names (1 is yes): half for training, half for test."""
    with tarfile.open(data_file("yesno/waves_yesno.tar.gz")) as archive:
        recordings = sorted(entry.name for entry in archive if entry.name.endswith(".wav"))
    rows = [f"{name}\t{Path(name).stem.replace('_', ' ')}" for name in recordings]
    order = np.random.default_rng(1).permutation(len(rows))
    for part, numbers in (("train", order[:30]), ("test", order[30:])):
        _write(f"yesno_{part}.tsv", (rows[number] for number in sorted(numbers)))


def digit_strings() -> None:
    """Strings of spoken digits: all five speakers, all but one, and only that one, for each speaker."""
    for speaker in SPEAKERS:
        write_strings(data_file(f"fsdd/{speaker}.tar.gz"), FOLDER / "fsdd", count=600)
    rows = {speaker: (FOLDER / "fsdd" / f"{speaker}.tsv").read_text().splitlines() for speaker in SPEAKERS}
    _write("fsdd/all.tsv", (row for strings in rows.values() for row in strings))
    for speaker in SPEAKERS:
        _write(
            f"fsdd/without_{speaker}.tsv", (row for name, strings in rows.items() if name != speaker for row in strings)
        )
        _write(f"fsdd/only_{speaker}.tsv", rows[speaker][:200])


def spoken_digits() -> None:
    """Lists of single spoken digits with one label each: for each speaker, all others, the next few, and that one."""
    rows: dict[str, list[str]] = {}
    for speaker in SPEAKERS:
        with tarfile.open(data_file(f"fsdd/{speaker}.tar.gz")) as archive:
            names = sorted(entry.name for entry in archive if entry.name.endswith(".wav"))
        rows[speaker] = [f"{speaker}.tar.gz/{name}\t{Path(name).name[0]}" for name in names]
    for speaker in SPEAKERS:
        others = (row for name, digits in rows.items() if name != speaker for row in digits)
        _write(f"fsdd_digits/without_{speaker}.tsv", ["file\tlabel", *others])
        _write(f"fsdd_digits/only_{speaker}.tsv", ["file\tlabel", *rows[speaker]])
        place = SPEAKERS.index(speaker)
        following = [*SPEAKERS[place + 1 :], *SPEAKERS[:place]]
        for count in range(1, len(following)):
            few = (row for name in following[:count] for row in rows[name])
            _write(f"fsdd_digits/{count}_without_{speaker}.tsv", ["file\tlabel", *few])


def generated_images() -> None:
    """Images of two shapes with labels, as ``seqloom data shapes`` writes them."""
    datasets.shapes(FOLDER / "shapes")


def generated_videos() -> None:
    """Clips of a moving shape, as ``seqloom data moving_shapes`` writes them."""
    datasets.moving_shapes(FOLDER / "moving_shapes")


def synthetic_digits() -> None:
    """Lists of single spoken digits as of ``spoken_digits``, with synthetic voices beside the speakers for training."""
    spoken_digits()
    synthetic = _synthetic_clips().read_text().splitlines()
    for speaker in SPEAKERS:
        rows = (FOLDER / f"fsdd_digits/without_{speaker}.tsv").read_text().splitlines()
        _write(f"fsdd_digits/without_{speaker}_synthetic.tsv", [*rows, *synthetic])


def synthetic_strings() -> None:
    """Strings as of ``digit_strings``, half of those of each speaker, and strings of synthetic voices for training."""
    digit_strings()
    voices: dict[str, list[tuple[str, Samples]]] = {}
    listed = _synthetic_clips()
    for row in listed.read_text().splitlines():
        name, digit = row.split("\t")
        voices.setdefault(Path(name).parent.name, []).append((digit, read_wav(listed.parent / name)[0]))
    strings = [
        row
        for voice, clips in voices.items()
        for row in _join_clips(clips, 8000, FOLDER / "fsdd", f"synthetic/{voice}", count=STRINGS_PER_VOICE)
    ]
    _write("fsdd/synthetic.tsv", strings)
    for speaker in SPEAKERS:
        rows = (FOLDER / f"fsdd/without_{speaker}.tsv").read_text().splitlines()
        _write(f"fsdd/without_{speaker}_synthetic.tsv", [*rows[::2], *strings])


def _synthetic_clips() -> Path:
    """The list of the ten digits, spoken by synthetic voices with the rate of fsdd."""
    from seqloom.data.synthetic_speech import TextToSpeak, choose_voices, synthesize

    listed = FOLDER / "fsdd_digits" / "synthetic.tsv"
    if not listed.exists():
        words = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
        texts = [TextToSpeak(word, str(digit)) for digit, word in enumerate(words)]
        voices = choose_voices(VOICES, accents="en", seed=1)
        synthesize(texts, listed.with_suffix(""), voices=voices, rate=8000)
    return listed


def write_strings(archive: Path, folder: Path, *, count: int) -> Path:
    """Concatenate clips of one speaker to strings of 1 to 8 digits: .wav files and a list of them."""
    speaker = archive.name.removesuffix(".tar.gz")
    return _write(f"{folder.name}/{speaker}.tsv", _join_clips(*_clips(archive), folder, speaker, count=count))


def _join_clips(clips: list[tuple[str, Samples]], rate: int, folder: Path, speaker: str, *, count: int) -> list[str]:
    """Write strings of the clips of a speaker to a folder of his name; the rows of their list."""
    random = np.random.default_rng(sum(map(ord, speaker)))
    (folder / speaker).mkdir(parents=True, exist_ok=True)
    rows = []
    for number in range(count):
        digits = random.integers(len(clips), size=random.integers(1, 9))
        pieces: list[Samples] = []
        for digit in digits:
            pieces += [np.zeros(int(rate * random.uniform(0, 0.2)), dtype=np.int16), clips[digit][1]]
        name = f"{speaker}/{number:03}.wav"
        with wave.open(str(folder / name), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(rate)
            file.writeframes(np.concatenate(pieces).astype("<i2").tobytes())
        rows.append(f"{name}\t{' '.join(clips[digit][0] for digit in digits)}")
    return rows


def _clips(archive: Path) -> tuple[list[tuple[str, Samples]], int]:
    """All clips with the digit that is spoken, and their sampling rate."""
    clips, rate = [], 0
    with tarfile.open(archive) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            stream = entries.extractfile(entry) if entry.name.endswith(".wav") else None
            if stream is not None:
                samples, rate = read_wav(io.BytesIO(stream.read()))
                clips.append((Path(entry.name).name[0], samples))
    return clips, rate


def read_wav(file: Path | io.BytesIO) -> tuple[Samples, int]:
    """The samples of a recording with one channel, and their rate."""
    with wave.open(str(file) if isinstance(file, Path) else file) as clip:
        return np.frombuffer(clip.readframes(clip.getnframes()), dtype="<i2"), clip.getframerate()


def pen_strings() -> None:
    """Strings of handwritten digits as pen strokes: dx, dy, and whether the pen is lifted afterwards."""
    for part, file, count in (("train", "tra", 6000), ("test", "tes", 1000)):
        random = np.random.default_rng(len(part))
        with gzip.open(data_file(f"pendigits/pendigits.{file}.gz"), "rt") as stream:
            digits = [_digit(line) for line in stream]
        if part == "train":  # sorted by writer, so that dev has writers of its own
            last = int(0.9 * len(digits))
            _write("pen_dev.jsonl", _strokes(digits[last:], 500, random))
            digits = digits[:last]
        _write(f"pen_{part}.jsonl", _strokes(digits, count, random))


def _digit(line: str) -> tuple[NDArray[np.float64], str]:  # points (8, 2), label
    *numbers, one_hot = line.strip().split(",")
    return np.array(numbers, dtype=float).reshape(8, 2) / 100, str(one_hot.index("1"))


def _strokes(digits: list[tuple[NDArray[np.float64], str]], count: int, random: np.random.Generator) -> Iterator[str]:
    for _ in range(count):
        indices = random.integers(len(digits), size=random.integers(3, 9))
        points, offset = [], 0.0
        for index in indices:
            points.append(digits[index][0] + [offset, 0.0])
            offset += float(random.uniform(1.1, 1.4))
        path = np.concatenate(points)
        moved = np.diff(path, axis=0, prepend=path[:1])
        lifted = np.arange(1, len(path) + 1) % 8 == 0
        rows = [[round(x, 3), round(y, 3), int(up)] for (x, y), up in zip(moved.tolist(), lifted, strict=True)]
        yield json.dumps({"strokes": rows, "text": " ".join(digits[index][1] for index in indices)})


def pen_words() -> None:
    """Generated words of pen strokes."""
    if not (FOLDER / "pen_strokes").exists():
        datasets.build("pen_strokes", FOLDER / "pen_strokes")


def letter_words() -> None:
    """Letters of character_trajectories joined to words; each split has letters and words of its own."""
    from scipy.io import loadmat

    matrices = loadmat(data_file("character_trajectories/trajectories_train.mat"))
    names = [str(name.item()) for name in matrices["key"].ravel()]
    letters: dict[str, list[NDArray[np.float64]]] = {name: [] for name in names}
    for number, velocity in zip(matrices["ytrain"].ravel().tolist(), matrices["xtrain"].ravel(), strict=True):
        letters[names[number - 1]].append(_letter(velocity))
    for split, count, (first, last) in (("train", 2500, (0, 0.7)), ("dev", 150, (0.7, 0.85)), ("test", 200, (0.85, 1))):
        random = np.random.default_rng(count)
        own = {name: kept[int(first * len(kept)) : int(last * len(kept))] for name, kept in letters.items()}
        _write(f"letter_words/{split}.jsonl", _joined_letters(own, split, count, random))


def _letter(velocity: NDArray[np.float64]) -> NDArray[np.float64]:  # (3, T) → (n, 2)
    """The path of a letter, without the rests at its ends; every fifth point."""
    moving = np.flatnonzero(np.abs(velocity[:2]).sum(axis=0) > LETTER_REST)
    path = np.cumsum(velocity[:2, moving[0] : moving[-1] + 1], axis=1).T / LETTER_SIZE
    return np.concatenate([path[::5], path[-1:]])


def _joined_letters(
    letters: dict[str, list[NDArray[np.float64]]], split: str, count: int, random: np.random.Generator
) -> Iterator[str]:
    splits = {"train": range(8), "dev": range(8, 9), "test": range(9, 10)}
    written = 0
    while written < count:
        word = "".join(random.choice(list(letters), size=random.integers(2, 6)))
        if zlib.crc32(word.encode()) % 10 not in splits[split]:
            continue
        paths, left = [], 0.0
        for letter in word:
            path = letters[letter][random.integers(len(letters[letter]))]
            paths.append(path - [path[:, 0].min() - left, path[:, 1].mean()])
            left += float(np.ptp(path[:, 0])) + random.uniform(0.2, 0.4)
        whole = np.concatenate(paths)
        moved = np.diff(whole, axis=0, prepend=whole[:1])
        lifted = np.zeros(len(whole), dtype=int)
        lifted[np.cumsum([len(path) for path in paths]) - 1] = 1
        rows = [[round(x, 3), round(y, 3), up] for (x, y), up in zip(moved.tolist(), lifted.tolist(), strict=True)]
        yield json.dumps({"strokes": rows, "text": word})
        written += 1


def plain_text() -> None:
    """Sentences of wikitext2, PTB and Brown; every hundredth is held out for dev."""
    sentences = [sentence for line in read_corpus() for sentence in re.split(r"(?<= [.?!]) ", _detokenize(line))]
    _write("text/train.txt", (sentence for number, sentence in enumerate(sentences) if number % 100))
    _write("text/dev.txt", sentences[::100])


def _detokenize(line: str) -> str:
    """A line of wikitext with its number and hyphen markers resolved."""
    return line.replace(" @,@ ", ",").replace(" @.@ ", ".").replace(" @-@ ", " - ")


def questions() -> None:
    """TREC with a tenth of its questions for training and another tenth for dev."""
    lines = gzip.decompress(data_file("trec/TREC.train.gz").read_bytes()).decode("latin-1").splitlines()
    _write("trec_tenth/train.txt", lines[0::10])
    _write("trec_tenth/dev.txt", lines[5::10])


def phrases() -> None:
    """The Stanford Sentiment Treebank: the positive and negative phrases of the training sentences, once each."""
    trees = gzip.decompress(data_file("sst/trees_train.txt.gz").read_bytes()).decode().lower().splitlines()
    labels: dict[str, list[int]] = {}
    for tree in trees:
        for text, label in labelled_phrases(tree):
            labels.setdefault(text, []).append(label)
    means = {text: sum(values) / len(values) for text, values in labels.items()}
    _write("sst_phrases.txt", (f"{int(mean > 2)} {text}" for text, mean in means.items() if mean != 2))


def database_questions() -> None:
    """GeoQuery: questions and their SQL queries with the names filled in, split by question."""
    pairs: dict[str, list[str]] = {"train": [], "dev": [], "test": []}
    for query in json.loads(gzip.decompress(data_file("geoquery_sql/geography.json.gz").read_bytes())):
        for sentence in query["sentences"]:
            question, sql = sentence["text"], query["sql"][0]  # the first of equivalent queries is the reference
            for name, value in sentence["variables"].items():
                question, sql = question.replace(name, value), sql.replace(name, value)
            pairs[sentence["question-split"]].append(f"{question}\t{sql}")
    for split, lines in pairs.items():
        _write(f"geoquery/{split}.tsv", lines)


def recombined_commands() -> None:
    """SCAN: a fiftieth of the training commands as dev data, and new commands from the phrases of the others."""
    for split in ("addprim_jump", "addprim_turn_left", "length"):
        train = FOLDER / f"scan/{split}_train.tsv"
        if train.exists():  # it takes half a minute
            continue
        with gzip.open(data_file(f"scan/tasks_train_{split}.txt.gz"), "rt", encoding="utf-8") as file:
            lines = file.read().splitlines()
        _write(f"scan/{split}_dev.txt", lines[::50])
        rest = _write(f"scan/{split}_rest.txt", [line for number, line in enumerate(lines) if number % 50])
        recombine_file(rest, train)


def labelled_phrases(tree: str) -> Iterator[tuple[str, int]]:
    """The phrases of a tree such as ``(3 (2 a) (4 joy))``, each with its label: 0 to 4, where 2 is neutral."""
    opened: list[tuple[int, int]] = []  # label, and number of the first word
    words: list[str] = []
    for label, word, _ in re.findall(r"\((\d) |([^()\s]+)|(\))", tree):
        if label:
            opened.append((int(label), len(words)))
        elif word:
            words.append(word)
        else:
            value, start = opened.pop()
            yield " ".join(words[start:]), value


def read_corpus() -> Iterator[str]:
    """The lines of wikitext2, PTB and Brown, cased as they are, with tokens separated by spaces.

    Without the lines of PTB that are test sentences of conll2000, whose taggers read vectors of this text.
    """
    for name, left_out in (("wikitext2/train.txt.gz", 0), ("ptb/ptb.train.txt.gz", CONLL2000_TEST)):
        with gzip.open(data_file(name), "rt", encoding="utf-8") as file:
            lines = [" ".join(words) for line in file if (words := line.split())]
        yield from lines[: len(lines) - left_out]
    with zipfile.ZipFile(data_file("brown/brown.zip")) as archive:
        for name in sorted(archive.namelist()):
            if re.fullmatch(r"brown/c[a-r]\d\d", name):
                for line in archive.read(name).decode().splitlines():
                    if words := [token.rpartition("/")[0] for token in line.split()]:
                        yield " ".join(words)


def _write(name: str, rows: Iterable[Any]) -> Path:
    path = FOLDER / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    return path


PREPARE: dict[str, Callable[[], None]] = {
    "names": names,
    "jsb": music,
    "pen_strokes_reader": pen_words,
    "pen_strokes_writer": pen_words,
    "letter_words_reader": letter_words,
    "letter_words_writer": letter_words,
    "nottingham": music,
    "omniglot": omniglot,
    "an4": speech,
    "an4_joint": speech,
    "an4_joint_phones": speech,
    "an4_phones": speech,
    "yesno": yes_and_no,
    "fsdd": digit_strings,
    "fsdd_digits": spoken_digits,
    "fsdd_synthetic": synthetic_strings,
    "fsdd_digits_synthetic": synthetic_digits,
    "shapes": generated_images,
    "moving_shapes": generated_videos,
    "pen_digits": pen_strings,
    "cmudict_recurrent": pronunciations,
    "cmudict_transformer": pronunciations,
    "trec_tenth": questions,
    "sst_phrases": phrases,
    "geoquery": database_questions,
    "scan_recombined": recombined_commands,
    "text_static": plain_text,
    "text_contextual": plain_text,
    "text_masked": plain_text,
}
"""By the name of the configuration that reads the files."""
