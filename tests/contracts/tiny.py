"""Tiny data for every task: a new task needs a case here, and is then tested against all contracts."""

import json
import math
import random
import wave
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from seqloom import config
from seqloom.checkpoint import Snapshot
from seqloom.data.readers.audio_files import Audio
from seqloom.data.readers.recordings import write_npz
from seqloom.run import Run
from seqloom.run_config import Config
from seqloom.testing.laws import randomize

RECURRENCE = {"cell": "gru", "hidden_size": 6, "dropout": 0.3}


class Case(NamedTuple):
    """A task with its data."""

    name: str
    file: str  # name of the training file; the development file is named "dev-" + file
    train: str
    dev: str
    fields: dict[str, Any]  # of [task]; {folder} stands for the folder of the data
    questions: Sequence[Any]  # inputs without labels
    write_files: Callable[[Path], None] = lambda _: None  # writes further files


def _tagged(seed: int, count: int) -> str:
    draw = random.Random(seed)  # noqa: S311  data, not secrets
    blocks = []
    for _ in range(count):
        rows = []
        for _ in range(draw.randint(1, 7)):
            rows += draw.choice([["the O"], ["sees O"], ["Paris B-LOC"], ["New B-LOC", "York I-LOC"], ["Anna B-PER"]])
        blocks.append("".join(f"{row}\n" for row in rows))
    return "\n".join(blocks)


def _labelled(seed: int, count: int) -> str:
    draw = random.Random(seed)  # noqa: S311
    words = [("up", "high above over"), ("down", "low below under")]
    lines = []
    for _ in range(count):
        label, typical = draw.choice(words)
        lines.append(f"{label} {' '.join(draw.choices([*typical.split(), 'it', 'goes'], k=draw.randint(1, 8)))}\n")
    return "".join(lines)


def _numbers(seed: int, count: int) -> str:
    draw = random.Random(seed)  # noqa: S311
    lines = []
    for _ in range(count):
        label = draw.choice(["rise", "fall"])
        steps = range(2 * draw.randint(1, 6))
        values = [(step if label == "rise" else -step) / 5 + draw.gauss(0, 0.2) for step in steps]
        lines.append(",".join([*(f"{value:.4f}" for value in values), label]) + "\n")
    return "".join(lines)


def _rated(seed: int, count: int) -> str:
    """Texts with a number each."""
    draw = random.Random(seed)  # noqa: S311
    lines = ["score,text\n"]
    for _ in range(count):
        words = draw.choices(["good", "bad", "it", "is"], k=draw.randint(1, 7))
        lines.append(f"{words.count('good') - words.count('bad') + draw.gauss(0, 0.1):.3f},{' '.join(words)}\n")
    return "".join(lines)


def _compared(seed: int, count: int) -> str:
    """Pairs of texts, and whether the second has a word of the first."""
    draw = random.Random(seed)  # noqa: S311
    lines = ["sentence1\tsentence2\tlabel\n"]
    for _ in range(count):
        first, second = (draw.choices(["up", "down", "left", "it", "goes"], k=draw.randint(1, 6)) for _ in range(2))
        label = "common" if set(first) & set(second) else "apart"
        lines.append(f"{' '.join(first)}\t{' '.join(second)}\t{label}\n")
    return "".join(lines)


def _classify_pairs(**fields: Any) -> Case:
    common = {"embedding_size": 5, "encoder": RECURRENCE, "head": {"layers": 1, "size": 4}}
    columns = {"text_column": "sentence1", "second_text_column": "sentence2", "label_column": "label"}
    questions = ["it goes up ||| down", "low ||| it goes", "what\tup it"]
    return Case("classify", "t.tsv", _compared(1, 18), _compared(2, 11), common | columns | fields, questions)


def _responses(seed: int, count: int) -> str:
    """A long table: a signal, and two responses to it at each time step."""
    draw = random.Random(seed)  # noqa: S311
    rows = ["id,time,signal,position,speed\n"]
    for number in range(count):
        position = 0.0
        for step in range(draw.randint(2, 9)):
            signal = draw.gauss(0, 1)
            before, position = position, 0.8 * position + signal
            rows.append(f"{number},{step},{signal:.4f},{1000 + position:.4f},{position - before:.4f}\n")
    return "".join(rows)


def _text(seed: int, count: int) -> str:
    draw = random.Random(seed)  # noqa: S311
    lines = (" ".join(draw.choices(["a", "b", "cd", "é", "eff"], k=draw.randint(0, 9))) for _ in range(count))
    return "".join(f"{line}\n" for line in lines)


def _series(seed: int, count: int) -> str:
    draw = random.Random(seed)  # noqa: S311
    rows = (f"{math.sin(step / 3):.4f},{10 * math.cos(step / 2) + draw.gauss(0, 1):.4f}\n" for step in range(count))
    return "one,two\n" + "".join(rows)


def _rows(text: str) -> list[list[float]]:
    return [[float(value) for value in line.split(",")] for line in text.splitlines()[1:]]


def _tag(**fields: Any) -> Case:
    words = {"words": {"embedding_size": 5}, "characters": {"layers": 1, "hidden_size": 3, "embedding_size": 3}}
    encoder = {"encoder": {**RECURRENCE, "bidirectional": True}}
    questions = ["Anna sees Paris", "Peter", "the New York"]
    return Case("tag", "t.conll", _tagged(1, 18), _tagged(2, 11), words | encoder | fields, questions)


def _classify(**fields: Any) -> Case:
    common = {"embedding_size": 5, "encoder": RECURRENCE}
    return Case("classify", "t.txt", _labelled(1, 18), _labelled(2, 11), common | fields, ["it goes up", "low", "what"])


def _model(**fields: Any) -> Case:
    common = {"embedding_size": 5, "decoder": RECURRENCE, "input_dropout": 0.2}
    return Case("language_model", "t.txt", _text(1, 18), _text(2, 11), common | fields, ["a cd é", "", "b x"])


def _pairs(seed: int, count: int) -> str:
    """Words, and the same reversed in upper case; some sources occur twice, some are empty."""
    draw = random.Random(seed)  # noqa: S311
    lines = []
    for _ in range(count):
        words = draw.choices(["a", "b", "cd", "é", "eff"], k=draw.randint(0, 6))
        lines.append(f"{' '.join(words)}\t{' '.join(words[::-1]).upper()}\n")
    return "x\tX\n" + "".join(lines)


def _translate(**fields: Any) -> Case:
    common = {"embedding_size": 5, "encoder": RECURRENCE, "decoder": RECURRENCE, "input_dropout": 0.2}
    return Case("translate", "t.tsv", _pairs(1, 18), _pairs(2, 11), common | fields, ["a cd é", "", "b x"])


IMAGES = [(f"{number}.png", number % 3, number % 2) for number in range(14)]  # file name, colour, whether it is wide


def _colours(rows: Sequence[tuple[str, int, int]]) -> str:
    """Images of one colour with one to three captions, not on adjacent lines."""
    lines = []
    for times in range(3):
        for name, colour, wide in rows[:: times + 1]:
            words = ["a", *["wide"] * wide, ("red", "green", "blue")[colour], *["thing"] * (times > 0)]
            lines.append(f"{name}\t{' '.join(words)}\n")
    return "".join(lines)


def _paint(folder: Path) -> None:
    for number, (name, colour, wide) in enumerate(IMAGES):
        pixels = np.random.default_rng(number).integers(0, 90, size=(9, 12 if wide else 9, 3), dtype=np.uint8)
        pixels[..., colour] += 150
        Image.fromarray(pixels).save(folder / name)


def _points(seed: int, count: int) -> str:
    """Vectors, and captions that describe the signs of their first two components."""
    draw = random.Random(seed)  # noqa: S311
    lines = []
    for _ in range(count):
        vector = [round(draw.gauss(0, 2), 3) for _ in range(3)]
        words = ["up" if vector[0] > 0 else "down", "right" if vector[1] > 0 else "left"]
        captions = [" ".join(words), " and ".join(words)][: draw.randint(1, 2)]
        lines.append(json.dumps({"vector": vector, "caption": captions}) + "\n")
    return "".join(lines)


def _caption(**fields: Any) -> Case:
    image_encoder = {"image_encoder": {"layers": 2, "channels": 4, "dropout": 0.2}}
    common = {"image_size": 10, "embedding_size": 5, "decoder": RECURRENCE, "input_dropout": 0.2, **image_encoder}
    questions = [np.full((20, 10, 3), 200, np.uint8), np.zeros((7, 7), np.uint8)]
    train, dev = _colours(IMAGES[:9]), _colours(IMAGES[9:])
    return Case("caption", "t.tsv", train, dev, common | fields, questions, _paint)


def _caption_vectors(**fields: Any) -> Case:
    common = {"embedding_size": 5, "decoder": RECURRENCE}
    return Case("caption", "t.jsonl", _points(1, 18), _points(2, 11), common | fields, [[0, 1, 2], [2.5, -1, 3]])


def _strokes(seed: int, count: int, *, spaces: bool = True) -> str:
    """Letters as three points each, in one or two words; one example is too short for its text."""
    draw = random.Random(seed)  # noqa: S311
    shapes = {"a": (1.0, 0.0), "b": (0.0, 1.0), "c": (-1.0, -1.0), " ": (0.0, 0.0)}
    lines = []
    for number in range(count):
        text = " ".join("".join(draw.choices("abc", k=draw.randint(1, 3))) for _ in range(draw.randint(1, 2)))
        text = text if spaces else text.replace(" ", "")
        points = [
            [x + draw.gauss(0, 0.1), y + draw.gauss(0, 0.1), float(step == 2)]
            for x, y in map(shapes.__getitem__, text)
            for step in range(3)
        ]
        if number == 5:
            points = points[:1]
        lines.append(json.dumps({"strokes": points, "text": text}) + "\n")
    return "".join(lines)


DECODER = {"decoder": {**RECURRENCE, "hidden_size": 4}, "embedding_size": 5}


def _transcribe(**fields: Any) -> Case:
    common = {"encoder": RECURRENCE}
    questions = [[[0.0, 1.0, 0.0]] * 4, [[1.0, 0.0, 0.0], [0.0, -1.0, 1.0]]]
    train, dev = _strokes(1, 18), _strokes(2, 11)
    return Case("transcribe", "t.jsonl", train, dev, common | fields, questions, _words)


WORDS = ["a", "ab", "abc", "b", "ca", "cab", "cc"]


def _words(folder: Path) -> None:
    (folder / "words.txt").write_text("".join(f"{word}\n" for word in WORDS))


def _write_tones(folder: Path) -> None:
    """Recordings of high and low tones."""
    for part, seed in (("train", 1), ("dev", 2)):
        draw = random.Random(seed)  # noqa: S311
        recordings: list[np.ndarray[Any, Any]] = []
        texts = []
        for _ in range(12):
            text = "".join(draw.choices("hl", k=draw.randint(1, 4)))
            tones = [np.sin(np.arange(400) * (1.2 if tone == "h" else 0.3)) for tone in text]
            recordings.append(
                np.concatenate(tones) + np.random.default_rng(len(recordings)).normal(0, 0.01, 400 * len(text))
            )
            texts.append(text)
        write_npz(folder / ("t.npz" if part == "train" else "dev-t.npz"), recordings, texts, rate=4000)


def _transcribe_sound(**fields: Any) -> Case:
    audio = {"n_mels": 8, "fmin": 50.0}
    common = {"encoder": RECURRENCE, "audio": audio, "format": "npz"}
    questions = [np.sin(np.arange(900) / 2), np.sin(np.arange(500) / 3)]
    return Case("transcribe", "t.npz", "", "", common | fields, questions, _write_tones)


def _listed(count: int, suffix: str) -> str:
    """A list of files: every second one is a rise."""
    names = (f"{number}.{suffix}\t{('fall', 'rise')[number % 2]}\n" for number in range(count))
    return "file\tlabel\n" + "".join(names)


def _write_sounds(folder: Path) -> None:
    """Tones that rise or fall, named by their number."""
    for number in range(18):
        pitch = np.linspace(0.3, 0.9, 700 + 40 * number)[:: 1 if number % 2 else -1]
        samples = np.sin(np.cumsum(pitch)) + np.random.default_rng(number).normal(0, 0.01, len(pitch))
        with wave.open(str(folder / f"{number}.wav"), "wb") as file:
            file.setparams((1, 2, 4000, 0, "NONE", ""))
            file.writeframes((samples * 16000).astype("<i2").tobytes())


def _frames(number: int) -> NDArray[np.uint8]:
    """A bar that rises or falls, of 2 to 4 frames."""
    frames = np.random.default_rng(number).integers(0, 40, (2 + number % 3, 8, 8, 3)).astype(np.uint8)
    for step, frame in enumerate(frames):
        frame[2 * (step if number % 2 else 3 - step)] += 200
    return frames


def _write_images(folder: Path) -> None:
    for number in range(18):
        Image.fromarray(_frames(number)[-1]).save(folder / f"{number}.png")


def _write_videos(folder: Path) -> None:
    for number in range(18):
        np.save(folder / f"{number}.npy", _frames(number))


def _classify_signals(suffix: str, write: Callable[[Path], None], questions: Sequence[Any], **fields: Any) -> Case:
    common = {"encoder": RECURRENCE, "image_size": 8, "image_encoder": {"layers": 1, "channels": 4}}
    return Case("classify", "t.tsv", _listed(18, suffix), _listed(11, suffix), common | fields, questions, write)


def _caption_signals(suffix: str, write: Callable[[Path], None], questions: Sequence[Any], **fields: Any) -> Case:
    """The labels as captions, with a second word for those of some examples."""
    listed = [_listed(count, suffix).replace("label", "caption") for count in (18, 11)]
    train, dev = (text.replace("rise\n", "it may rise\n") for text in listed)
    common = {"encoder": {**RECURRENCE, "layers": 1}, "image_size": 8, "image_encoder": {"layers": 1, "channels": 4}}
    sizes = {"embedding_size": 5, "decoder": RECURRENCE, "input_dropout": 0.2}
    return Case("caption", "t.tsv", train, dev, common | sizes | fields, questions, write)


def _transcribe_video(**fields: Any) -> Case:
    train, dev = (_listed(count, "npy").replace("\tfall", "\tf").replace("\trise", "\tr") for count in (18, 11))
    common = {"encoder": RECURRENCE, "image_size": 8, "video_encoder": {"layers": 1, "channels": 4}}
    return Case("transcribe", "t.tsv", train, dev, common | fields, [_frames(20), _frames(21)], _write_videos)


def _write_bilm(lines: str, *, masked: bool = False, **fields: Any) -> Callable[[Path], None]:
    """Writes the run of a bidirectional or masked language model with random weights, and a file of word vectors."""

    def write(folder: Path) -> None:
        (folder / "language.txt").write_text(lines)
        task_fields = {
            "name": "language_model",
            "train": str(folder / "language.txt"),
            "embedding_size": 4,
        }
        layers = {**RECURRENCE, "hidden_size": 4, "layers": 2}
        kind = {"objective": "masked", "encoder": layers} if masked else {"direction": "both", "decoder": layers}
        values = task_fields | kind | fields
        document = config.Document.empty([f"task.{name}={literal(value)}" for name, value in values.items()])
        settings = Config.build(document, defaults=False)
        task: Any = settings.task.fit(settings.task.read(folder / "language.txt"))
        torch.manual_seed(5)
        run = Run.create(
            folder / "language", config=settings.text(), learned=task.learned.model_dump_json(), environment={}
        )
        run.save("best", Snapshot(task.build_model().state_dict(), {}, {}))
        tokens = task.tokenizer.vocabulary.tokens[2:]
        rows = (f"{token} {index} {index % 3} 1\n" for index, token in enumerate(tokens) if token.strip())
        (folder / "vectors.txt").write_text("".join(rows))

    return write


CONTEXT = {"run": "{folder}/language", "dropout": 0.2}
STATIC = {"file": "{folder}/vectors.txt", "dropout": 0.2}
CHARACTERS = {"unit": "characters"}
TRANSFORMER = {"cell": "transformer", "hidden_size": 8, "layers": 2, "options": {"heads": 2}}


def _forecast(**fields: Any) -> Case:
    common = {"history": 5, "horizon": 2, "encoder": RECURRENCE}
    return Case("forecast", "t.csv", _series(1, 30), _series(2, 18), common | fields, [_rows(_series(3, 9))])


ANALOGIES = """: letters
a b cd é
b a é cd
a b nothing é
: more
cd é eff a
"""


def _embed(**fields: Any) -> Case:
    """Threads update the vectors without locks, so results are reproducible on one thread only, as in ``build``."""
    common = {"min_count": 1, "vector_size": 5, "window": 2, "negative": 3, "neighbours": 2}
    questions = ["a", "a - b + cd", "a b", "a b cd é", "what", "", "a - + b", "-"]
    return Case("embed", "t.txt", _text(1, 18), ANALOGIES, common | fields, questions)


def _drawings(seed: int, count: int) -> str:
    """Zigzags: the text says how many teeth each has."""
    draw = random.Random(seed)  # noqa: S311
    lines = []
    for _ in range(count):
        text = "".join(draw.choices("ab", k=draw.randint(1, 3)))
        points = [[draw.gauss(1, 0.1), draw.gauss(2 if up else -2, 0.2), 0] for _ in text for up in (1, 0)]
        points[-1][2] = 1
        lines.append(json.dumps({"strokes": points, "text": text}) + "\n")
    return "".join(lines)


def _handwriting(**fields: Any) -> Case:
    common = {"condition": "text", "components": 2, "window_components": 2, "decoder": RECURRENCE}
    points = np.array([[1, 2, 0], [1, -2, 1]], dtype=np.float32)
    questions = [(points, "a"), (points[:1], "b"), (np.concatenate([points, points]), "x")]
    return Case("handwriting", "t.jsonl", _drawings(1, 18), _drawings(2, 11), common | fields, questions)


def _chords(seed: int, count: int) -> str:
    """Two chords in turn, each with one random note."""
    draw = random.Random(seed)  # noqa: S311
    chords = ([60, 64, 67], [59, 62, 67])
    pieces = [
        [[*chords[step % 2], draw.randint(70, 80)] for step in range(draw.randint(1, 8))] + [[]] for _ in range(count)
    ]
    return "".join(json.dumps({"notes": piece}) + "\n" for piece in pieces)


def _music(**fields: Any) -> Case:
    common = {"nade_size": 3, "decoder": RECURRENCE}
    questions = [[[60, 64], [], [62]], [[21, 108]]]
    return Case("music", "t.jsonl", _chords(1, 18), _chords(2, 11), common | fields, questions)


CASES: dict[str, Case] = {
    "embed": _embed(),
    "embed, cbow": _embed(model="cbow", negative=0, phrases={"threshold": 0.5, "discount": 0}),
    "embed, one hot": _embed(model="one_hot"),
    "tag": _tag(),
    "tag, crf": _tag(output="crf"),
    "tag, unidirectional": _tag(encoder=RECURRENCE, characters={"layers": 0}),
    "tag, hmm": _tag(model="hmm"),
    "tag, transformer": _tag(encoder={**TRANSFORMER, "bidirectional": True}),
    "tag, contextual vectors": _tag(pretrained=CONTEXT)._replace(
        write_files=_write_bilm("Anna sees New York\nthe Paris\n")
    ),
    "tag, fine-tuned and static vectors": _tag(
        pretrained={**CONTEXT, **STATIC, "fine_tune": True, "replace_embeddings": True},
        words={"embedding_size": 5, "lowercase": False},
    )._replace(
        write_files=_write_bilm(
            "Anna sees\nthe Paris\n", characters={"layers": 1, "hidden_size": 2, "embedding_size": 3}
        )
    ),
    "tag, masked vectors": _tag(pretrained={**CONTEXT, "fine_tune": True, "layer_decay": 0.5})._replace(
        write_files=_write_bilm("Anna sees New York\nthe Paris\n", masked=True)
    ),
    "classify": _classify(),
    "classify, contextual vectors": _classify(pretrained={**CONTEXT, "replace_embeddings": True})._replace(
        write_files=_write_bilm("it goes up\n")
    ),
    "classify, static vectors": _classify(pretrained=STATIC)._replace(
        write_files=_write_bilm("it goes over\nlow below\n")
    ),
    "classify, masked vectors": _classify(pretrained={**CONTEXT, "fine_tune": True, "layer_decay": 0.5})._replace(
        write_files=_write_bilm("it goes up\nlow below\n", masked=True)
    ),
    "classify, attention": _classify(pooling="attention", encoder={**RECURRENCE, "bidirectional": True}),
    "classify, mixed layers": _classify(
        encoder={**TRANSFORMER, "cell": ["lstm", "transformer"], "bidirectional": True}
    ),
    "classify, pairs": _classify_pairs(),
    "classify, pairs with attention": _classify_pairs(
        pooling="attention", encoder={**TRANSFORMER, "bidirectional": True}
    ),
    "classify, pairs with static vectors": _classify_pairs(pretrained=STATIC)._replace(
        write_files=_write_bilm("it goes over\nup down\n")
    ),
    "classify, numbers": Case(
        "classify",
        "t.csv",
        _numbers(1, 18),
        _numbers(2, 11),
        {"format": "numbers", "channels": 2, "encoder": RECURRENCE},
        [[[0.0, 0.2], [0.4, 0.6]], [[1.0, 0.0]]],
    ),
    "classify, sound": _classify_signals(
        "wav",
        _write_sounds,
        [Audio(np.sin(np.arange(900) / 2), 4000), Audio(np.sin(np.arange(500) / 3), 4000)],
        audio={"n_mels": 8, "fmin": 50.0},
        trim_db=30.0,
        time_reduction={"factor": 2},
        augment={"freq_masks": 1, "freq_mask_width": 2},
    ),
    "classify, images": _classify_signals("png", _write_images, [_frames(20)[0], _frames(21)[0]]),
    "classify, convolutions": _classify_signals(
        "png", _write_images, [_frames(20)[0]], encoder={**RECURRENCE, "layers": 0}
    ),
    "classify, video": _classify_signals("npy", _write_videos, [_frames(20), _frames(21)]),
    "classify, regression": Case(
        "classify",
        "t.csv",
        _rated(1, 18),
        _rated(2, 11),
        {"target_type": "number", "label_column": "score", "embedding_size": 5, "encoder": RECURRENCE},
        ["it is good", "bad", "what"],
    ),
    "tag, regression": Case(
        "tag",
        "t.csv",
        _responses(1, 14),
        _responses(2, 11),
        {
            "target_type": "number",
            "label_column": ["position", "speed"],
            "group_column": "id",
            "time_column": "time",
            "encoder": RECURRENCE,
        },
        [[[0.2], [0.4]], [[1.0]]],
    ),
    "language_model": _model(),
    "language_model, characters": _model(text={"unit": "characters"}, tie_embeddings=False),
    "language_model, window": _model(model="window", order=3),
    "language_model, ngram": _model(model="ngram", order=3),
    "language_model, transformer": _model(decoder={**TRANSFORMER, "options": {"heads": 2, "context": 3}}),
    "language_model, bidirectional": _model(direction="both", sampled_softmax=3),
    "language_model, character encoder": _model(
        direction="both",
        decoder={**RECURRENCE, "layers": 2, "connection": "residual"},
        characters={"layers": 1, "hidden_size": 3, "embedding_size": 3},
    ),
    "language_model, bidirectional, transformer": _model(direction="both", decoder=TRANSFORMER),
    "language_model, masked": _model()._replace(
        fields={"embedding_size": 5, "input_dropout": 0.2, "objective": "masked", "encoder": RECURRENCE}
    ),
    "language_model, masked, transformer": _model()._replace(
        fields={
            "objective": "masked",
            "encoder": TRANSFORMER,
            "embedding_size": 5,
            "sampled_softmax": 3,
            "characters": {"layers": 1, "hidden_size": 3, "embedding_size": 3},
        }
    ),
    "language_model, masked, characters": _model()._replace(
        fields={"objective": "masked", "encoder": TRANSFORMER, "text": CHARACTERS, "mask_rate": 0.3}
    ),
    "language_model, mixed layers": _model(decoder={**TRANSFORMER, "cell": ["gru", "transformer"]}),
    "translate": _translate(scheduled_sampling={"schedule": "linear", "offset": 0.5}),
    "translate, characters": _translate(source=CHARACTERS, target=CHARACTERS, attention={"style": "bahdanau"}),
    "translate, joint_ngram": _translate(model="joint_ngram", joint_ngram={"order": 3}),
    "translate, hybrid": _translate(model="hybrid", joint_ngram={"order": 3}, label_smoothing=0.1),
    "translate, no attention": _translate(
        shared_vocab=True, reverse_source=True, attention={"style": "none", "context": "last"}
    ),
    "translate, contextual vectors": _translate(pretrained={**CONTEXT, **STATIC}, reverse_source=True)._replace(
        write_files=_write_bilm("a b cd\ne eff\n")
    ),
    "translate, masked vectors": _translate(pretrained=CONTEXT)._replace(
        write_files=_write_bilm("a b cd\ne eff\n", masked=True)
    ),
    "translate, characters, contextual vectors": _translate(
        source=CHARACTERS, target=CHARACTERS, pretrained=CONTEXT
    )._replace(write_files=_write_bilm("a b cd\ne eff\n", text=CHARACTERS, decoder=TRANSFORMER)),
    "translate, BPE-dropout": _translate(
        source={"unit": "subwords", "vocab_size": 270}, shared_vocab=True, bpe_dropout=0.3
    ),
    "translate, beam": _translate(
        search={"name": "beam", "size": 3, "nbest": 2, "coverage_penalty": 0.2}, tie_embeddings=False
    ),
    "translate, transformer": _translate(encoder=TRANSFORMER, decoder=TRANSFORMER, label_smoothing=0.1),
    "translate, transformer, scheduled sampling": _translate(
        decoder=TRANSFORMER, scheduled_sampling={"schedule": "linear", "offset": 0.5}
    ),
    "caption": _caption(
        image_encoder={
            "layers": 2,
            "channels": 4,
            "depth": 2,
            "random_flip": True,
            "random_shift": 2,
            "random_zoom": 0.2,
            "color_jitter": 0.1,
            "dropout": 0.2,
        }
    ),
    "caption, beam": _caption(
        attention={"style": "bahdanau"}, search={"name": "beam", "size": 3, "nbest": 2}, tie_embeddings=False
    ),
    "caption, pooled image": _caption(
        image_pooling="mean", attention={"style": "none", "context": "mean"}, resize="pad"
    ),
    "caption, transformer": _caption(decoder=TRANSFORMER, scheduled_sampling={"schedule": "linear", "offset": 0.5}),
    "caption, vectors": _caption_vectors(text=CHARACTERS, label_smoothing=0.1),
    "caption, video": _caption_signals("npy", _write_videos, [_frames(20), _frames(21)]),
    "caption, sound": _caption_signals(
        "wav",
        _write_sounds,
        [Audio(np.sin(np.arange(900) / 2), 4000)],
        audio={"n_mels": 8, "fmin": 50.0},
        time_reduction={"factor": 2},
        bridge="copy",
        decoder={**RECURRENCE, "hidden_size": 12},
    ),
    "transcribe": _transcribe(
        time_reduction={"factor": 2},
        augment={"freq_masks": 1, "freq_mask_width": 1, "time_masks": 1, "time_mask_width": 2},
    ),
    "transcribe, unidirectional": _transcribe(encoder={**RECURRENCE, "bidirectional": False}, normalize="streaming"),
    "transcribe, pyramid": _transcribe(
        encoder={**RECURRENCE, "layers": 2}, time_reduction={"method": "pyramid", "factor": 2}, normalize="utterance"
    ),
    "transcribe, beam": _transcribe(search={"name": "prefix_beam", "size": 5, "nbest": 2}, text={"unit": "words"}),
    "transcribe, columns": _transcribe(image_encoder={"layers": 1, "channels": 2}, normalize="none"),
    "transcribe, transformer": _transcribe(encoder=TRANSFORMER, prenet={"layers": 1, "size": 4, "window": 3}),
    "transcribe, attention": _transcribe(
        model="attention",
        **DECODER,
        search={"name": "greedy"},
        scheduled_sampling={"schedule": "linear", "offset": 0.5},
    ),
    "transcribe, joint": _transcribe(
        model="joint",
        **DECODER,
        search={"name": "beam", "size": 3, "nbest": 2},
        time_reduction={"factor": 2},
    ),
    "transcribe, video": _transcribe_video(normalize="utterance"),
    "transcribe, audio": _transcribe_sound(augment={"speed_perturb": [0.9, 1.1]}, time_reduction={"factor": 2}),
    "transcribe, mfcc": _transcribe_sound(
        audio={"features": "mfcc", "n_mels": 8, "n_mfcc": 5, "deltas": 1, "fmin": 50.0}, normalize="utterance"
    ),
    "handwriting": _handwriting(),
    "handwriting, no text": _handwriting(condition="none"),
    "handwriting, two layers": _handwriting(decoder={**RECURRENCE, "layers": 2}),
    "music": _music(),
    "music, independent notes": _music(nade_size=0, decoder=TRANSFORMER),
    "forecast": _forecast(),
    "forecast, every_step": _forecast(output="every_step"),
    "forecast, channel independent": _forecast(channel_independent=True),
}


def write(case: Case, folder: Path) -> None:
    (folder / case.file).write_text(case.train)
    (folder / f"dev-{case.file}").write_text(case.dev)
    case.write_files(folder)


def build(case: Case, folder: Path, **train: Any) -> Config:
    """Write the data of a case to the folder; return its configuration."""
    write(case, folder)
    values: dict[str, Any] = {f"task.{name}": value for name, value in case.fields.items()}
    values |= {"task.name": case.name, "task.train": str(folder / case.file)}
    values |= {"task.dev": str(folder / f"dev-{case.file}")}
    settings = {"batch_size": 4, "epochs": 2, "log_every": 3, "threads": 1, "learning_rate": 0.01} | train
    values |= {f"train.{name}": value for name, value in settings.items()}
    assignments = [f"{name}={literal(value)}".replace("{folder}", str(folder)) for name, value in values.items()]
    return Config.build(config.Document.empty(assignments), defaults=False)


def literal(value: Any) -> str:
    """A value as inline TOML."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {literal(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


def fit_random(case: Case, folder: Path) -> tuple[Any, Any]:
    """A task that is fitted to the data of a case, and its model with random weights, in float32."""
    task: Any = build(case, folder).task
    task = task.fit(task.read(folder / case.file))
    module = task.build_model().eval()
    randomize(module, dtype=torch.float32)
    return task, module


def save_random(case: Case, folder: Path) -> Path:
    """A run of a transcriber with random weights."""
    config = build(case, folder)
    task: Any = config.task.fit(config.task.read(folder / case.file))
    torch.manual_seed(5)
    module = task.build_model()
    module.output.weight.data *= 9  # further from chance
    run = Run.create(folder / "run", config=config.text(), learned=task.learned.model_dump_json(), environment={})
    run.save("best", Snapshot(module.state_dict(), {}, {}))
    return run.path
