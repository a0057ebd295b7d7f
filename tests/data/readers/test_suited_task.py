"""The task that a file suits, by what it looks like."""

import json
from pathlib import Path

import pandas as pd
import pytest

from seqloom.data.readers.suited_task import find_suited_task

TEXTS = [f"this film number {number} is worth seeing" for number in range(12)]
LABELS = ["good", "bad"] * 6
REVIEWS = "text,label\n" + "".join(f"{text},{label}\n" for text, label in zip(TEXTS, LABELS, strict=True))
SALES = "month,sales,visitors\n" + "".join(
    f"2010-{month:02}-01,{month * month},{month % 5}\n" for month in range(1, 13)
)
WORDS = "Peter B-PER\nlives O\nin O\nBerlin B-LOC\n\nMary B-PER\nleft O\n"
CONLLU = "".join(
    f"# text = x\n1\tThe{number}\tthe\tDET\t_\t_\t2\tdet\t_\t_\n2\tcat\tcat\tNOUN\t_\t_\t0\troot\t_\t_\n\n"
    for number in range(3)
)
SENSORS = "id,time,x,y,activity\n" + "".join(
    f"{row // 6},{row % 6},0.{row},1.{row},{'walk' if row < 6 else 'sit'}\n" for row in range(12)
)
MOVES = SENSORS.replace("walk", "goes a long way").replace("sit", "sits still now")
SUMS = "".join(f"what is {first} plus 3\t{first + 3}\n" for first in [1, 2, 3] * 4)


@pytest.mark.parametrize(
    ("name", "content", "task", "found"),
    [
        ("a.csv", REVIEWS, "classify", "a text and its label in each row (columns 'text' and 'label')"),
        ("a.tsv", REVIEWS.replace(",", "\t").partition("\n")[2], "classify", "(columns 1 and 2)"),
        ("a.csv", SALES, "forecast", "a date (column 'month') and numbers"),
        ("a.conll", WORDS, "tag", "a word and its label on each line"),
        ("a.conllu", CONLLU, "tag", "a word and its label on each line"),
        ("a.ts", "@data\n1,2:up\n", "classify", "sequences of numbers"),
        (
            "a.csv",
            MOVES,
            "caption",
            "sequences of numbers with a text",
        ),
        ("a.jsonl", 8 * '{"values": [[1, 2]], "text": "up"}\n', "transcribe", "vectors and their text"),
        ("a.jsonl", 8 * '{"values": [[1, 2]], "label": "up"}\n', "classify", "vectors and their label"),
        ("a.jsonl", 8 * '{"vector": [1, 2], "caption": "up"}\n', "caption", "vectors and their caption"),
        ("a.csv", SENSORS, "classify", "sequences of numbers with a label (columns 'id' and 'activity')"),
        ("a.tsv", "".join(f"{text}\t{text.upper()}\n" for text in TEXTS), "translate", "pairs of texts"),
        ("a.jsonl", "".join(json.dumps({"w": ["a", "b"], "t": ["X", "Y"]}) + "\n" for _ in TEXTS), "tag", "list"),
        ("a.csv", "file,text\n" + "".join(f"a.wav,{text}\n" for text in TEXTS), "transcribe", "a recording"),
        ("a.tsv", "".join(f"{n}.wav\t{'up' if n % 2 else 'down'}\n" for n in range(8)), "classify", "its label"),
        ("a.tsv", "".join(f"{n}.wav\tmid {n}\n" for n in range(8)), "transcribe", "a recording and its text"),
        ("a.txt", "".join(f"clips/{n}.png\n" for n in range(8)), "caption", "the name of an image in each row"),
        ("a.txt", "".join(f"{label} {text}\n" for text, label in zip(TEXTS, LABELS, strict=True)), "classify", "line"),
        ("a.txt", "\n".join(TEXTS), "language_model", "plain text"),
    ],
)
def test_what_a_file_holds(tmp_path: Path, *, name: str, content: str, task: str, found: str) -> None:
    (tmp_path / name).write_text(content)
    suited = find_suited_task(tmp_path / name)
    assert suited is not None
    assert suited.task == task
    assert found in suited.advice(tmp_path / name)
    assert suited.advice(tmp_path / name).endswith(f"seqloom train --task {task} --data {tmp_path / name}")


@pytest.mark.parametrize(
    ("name", "task", "noun"),
    [("a.wav", "transcribe", "a recording"), ("a.png", "caption", "an image"), ("a.gif", "caption", "a video")],
)
def test_a_single_file_has_to_be_listed_with_its_text(tmp_path: Path, name: str, task: str, noun: str) -> None:
    (tmp_path / name).write_bytes(b"")
    suited = find_suited_task(tmp_path / name)
    assert suited is not None
    assert suited.advice(tmp_path / name) == (
        f"found {noun}, which the task {task} turns into text: write a table list.tsv with a row {name}<TAB>TEXT for "
        f"each file, and run seqloom train --task {task} --data list.tsv"
    )
    assert suited.misread_by("translate")
    assert not suited.misread_by("classify")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("sums.tsv", SUMS),  # numbers are answers as well as classes
        ("names.tsv", "".join(f"name{number}\tfrench\n" for number in range(12))),
        ("short.csv", "text,label\none two three,good\n"),
        ("damaged.csv", '"a,b\n'),
        ("empty.txt", ""),
        ("dates.csv", SALES.replace("visitors", "label")),
    ],
)
def test_unclear_files_suit_no_task(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    assert find_suited_task(tmp_path / name) is None


@pytest.mark.parametrize("target", ["left", "a shape moves to the left"])
def test_names_of_files_are_no_texts(tmp_path: Path, target: str) -> None:
    (tmp_path / "a.tsv").write_text("".join(f"clip{number}.gif\t{target}\n" for number in range(8)))
    suited = find_suited_task(tmp_path / "a.tsv")
    assert suited is not None
    assert {task: suited.misread_by(task) for task in ("translate", "language_model", "caption", "transcribe")} == {
        "translate": True,
        "language_model": True,
        "caption": False,
        "transcribe": False,
    }


def test_a_data_frame(tmp_path: Path) -> None:
    frame = pd.DataFrame({"review": TEXTS, "stars": LABELS})
    suited = find_suited_task(frame)
    assert suited is not None
    assert suited.advice(frame).endswith('task classify: seqloom.train(task="classify", data=…)')
    assert find_suited_task(tmp_path) is None


def test_a_folder_for_each_label(tmp_path: Path) -> None:
    for name in ("yes/1.wav", "yes/2.wav", "yes/3.wav", "no/4.wav", "no/5.wav", "no/6.wav"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    suited = find_suited_task(tmp_path)
    assert suited is not None
    assert (suited.task, suited.misread_by("transcribe")) == ("classify", True)
    (tmp_path / "yes/1.txt").touch()  # a transcript
    assert find_suited_task(tmp_path) is None


def test_a_date_is_no_label(tmp_path: Path) -> None:
    notes = "".join(f"{row},2023-01-{row % 4 + 1:02},{text}\n" for row, text in enumerate(TEXTS))
    (tmp_path / "notes.csv").write_text(f"id,date,remark\n{notes}")
    assert find_suited_task(tmp_path / "notes.csv") is None
    (tmp_path / "rated.csv").write_text(
        "date,remark,opinion\n"
        + "".join(f"2023-01-{row % 4 + 1:02},{text},{LABELS[row]}\n" for row, text in enumerate(TEXTS))
    )
    suited = find_suited_task(tmp_path / "rated.csv")
    assert suited is not None
    assert "(columns 'remark' and 'opinion')" in suited.advice(tmp_path / "rated.csv")
