import io
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seqloom.data.readers.sentences import Sentence
from seqloom.data.readers.tagged import (
    TaggedReader,
    detect,
    read_conll,
    read_conllu,
    read_items,
    read_lines,
    read_parallel,
)
from seqloom.data.readers.tagged_frames import read_frames
from seqloom.data.readers.text_files import DataError, Location
from seqloom.data.readers.vectors import VectorSequence

UD = (
    "# text = a b\n1-2\tab\t_\t_\t_\t_\t_\t_\t_\t_\n"
    "1\ta\tA\tX\tx1\t_\t2\tdet\t_\t_\n2\tb\tB\tY\tx2\t_\t0\troot\t_\t_\n\n"
)
BLANK = "1\ta\t_\t_\t_\t_\t_\t_\t_\t_\n\n"


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_conll_columns(tmp_path: Path) -> None:
    path = write(tmp_path, "a.conll", "a N B-x\nb V O\n\nc N O\n")
    first, second = read_conll(path)
    assert (first.words, first.labels, first.location.line) == (("a", "b"), ("B-x", "O"), 1)
    assert (second.words, second.labels, second.at(0).line) == (("c",), ("O",), 4)
    assert [one.labels for one in read_conll(path, labels=1)] == [("N", "V"), ("N",)]
    assert [one.words for one in read_conll(path, words=1)] == [("N", "V"), ("N",)]
    assert next(read_conll(write(tmp_path, "b.conll", "a\nb\n"))) == Sentence(
        Location(str(tmp_path / "b.conll"), 1), ("a", "b"), None, range(1, 3)
    )


def test_conllu_columns(tmp_path: Path) -> None:
    path = write(tmp_path, "a.conllu", UD + BLANK)
    first, second = read_conllu(path)
    assert (first.words, first.labels) == (("a", "b"), ("X", "Y"))
    assert (first.at(0).line, first.at(1).line) == (3, 4)
    assert (second.words, second.labels) == (("a",), None)
    assert next(read_conllu(path, words="lemma", labels="DEPREL")).labels == ("det", "root")
    assert next(read_conllu(path, words="lemma", labels=4)).words == ("A", "B")


def test_feature_columns(tmp_path: Path) -> None:
    path = write(tmp_path, "a.conll", "a N B-x\nb V O\n\nc N O\n")
    first, second = TaggedReader(features=(1,)).read(path)
    assert isinstance(first, Sentence)
    assert (first.features, first.labels) == ((("N", "V"),), ("B-x", "O"))
    assert isinstance(second, Sentence)
    assert second.features == (("N",),)
    assert TaggedReader(features=(-2,)).inspect(path)[1] == (
        "word from column 1 (task.word_column = 0), feature from column 2, label from column 3 (task.label_column = 2)"
    )
    unlabelled = write(tmp_path, "b.conll", "a N\nb V\n")  # to predict: the last column is the feature
    assert next(read_conll(unlabelled, features=(1,))).labels is None
    reader = TaggedReader(features=(1,))
    assert reader.for_inputs(unlabelled, lambda label: label in ("B-x", "O")) == (reader, "")
    with pytest.raises(DataError, match=r"a\.conll:1: task\.feature_columns names column 3, which holds the words or"):
        TaggedReader(features=(2,)).inspect(path)
    with pytest.raises(DataError, match="feature_columns"):
        list(read_conll(path, features=(7,)))
    universal = write(tmp_path, "c.conllu", UD)
    (sentence,) = TaggedReader(features=("upos", "lemma"), labels="deprel").read(universal)
    assert isinstance(sentence, Sentence)
    assert sentence.features == (("X", "Y"), ("A", "B"))
    assert "feature from column 4 'upos'" in TaggedReader(features=("upos",), labels="xpos").inspect(universal)[1]
    with pytest.raises(DataError, match="names column 4, which holds the words or the labels"):
        TaggedReader(features=("upos",)).inspect(universal)


def test_parallel_files(tmp_path: Path) -> None:
    words = write(tmp_path, "train.seq.in", "a b \nc\n\n")
    assert [one.labels for one in read_parallel(words, ("seq.in", "seq.out"))] == [None] * 3
    write(tmp_path, "train.seq.out", "X Y\nZ\n\n")
    actual = list(read_parallel(words, ("seq.in", "seq.out")))
    assert [(one.words, one.labels) for one in actual] == [(("a", "b"), ("X", "Y")), (("c",), ("Z",)), ((), ())]


WRONG: list[tuple[str, Callable[[Path], Iterator[Any]], str]] = [
    ("a N\n\nb\n", read_conll, "data:3: expected 2 columns as in the rows above, found 1"),
    ("a N\n", lambda path: read_conll(path, labels=2), "data:1: task.label_column is 2, but there are only 2 columns"),
    ("a N\n", lambda path: read_conll(path, labels="upos"), "data:1: no column 'upos'; expected an index"),
    (UD, lambda path: read_conllu(path, labels="pos"), "data:3: no column 'pos'; expected one of id, form"),
    ("a\n", lambda path: read_parallel(path, ("in", "out")), "'in' .task.parallel. does not occur"),
    ("a b\n", lambda path: read_parallel(path, ("data", "labels")), "data:1: found 2 words, but 1 label in .*labels"),
    ("a b\nc", lambda path: read_parallel(path, ("data", "labels")), "has 2 lines, .*labels has 1"),
    ("1,x\n", lambda path: read_frames(path, labels="y"), "no column 'y'; the first row is '1,x'"),
]


@pytest.mark.parametrize(("text", "read", "message"), WRONG)
def test_errors_name_the_location(
    tmp_path: Path, text: str, read: Callable[[Path], Iterator[Any]], message: str
) -> None:
    folder = tmp_path / "x"
    folder.mkdir()
    write(folder, "labels", "X\n" if text == "a b\n" else "X Y\n")
    with pytest.raises(DataError, match=message):
        list(read(write(folder, "data", text)))


def test_frames_of_csv_and_npz(tmp_path: Path) -> None:
    first, second = read_frames(write(tmp_path, "a.csv", "1,2,u\n3,4,v\n\n5,6,u\n"))
    assert first.values.tolist() == [[1, 2], [3, 4]]
    assert (first.labels, second.labels, second.location.line) == (("u", "v"), ("u",), 4)
    np.savez(tmp_path / "a.npz", x=np.ones((2, 3, 4)), y=np.array([["a", "b", "a"]] * 2))
    assert [(one.values.shape, one.labels) for one in read_frames(tmp_path / "a.npz")] == [
        ((3, 4), ("a", "b", "a"))
    ] * 2


def test_python_values() -> None:
    kept = Sentence(Location("file", 3), ("a",), ("X",))
    actual = list(read_items(["a b", ["c", "d e"], kept, np.ones((2, 3)), ""]))
    assert [getattr(one, "words", None) for one in actual] == [("a", "b"), ("c", "d e"), ("a",), None, ()]
    assert actual[2] is kept
    assert isinstance(actual[3], VectorSequence)
    assert actual[3].values.shape == (2, 3)
    assert [one.words for one in read_lines(["a b", ""])] == [("a", "b"), ()]
    for wrong in ("a text", [3.5], [[["a"], 1]], [np.full((2, 2), np.nan)]):
        with pytest.raises(DataError, match="input"):
            list(read_items(wrong))


def test_format_is_detected_by_name() -> None:
    names = ["a.conllu.gz", "a.CONLLU", "a.csv", "b.npz", "c.txt.gz", "d"]
    actual = [detect(Path(name), frames=False) for name in names]
    assert actual == ["conllu", "conllu", "vectors", "vectors", "conll", "conll"]
    assert detect(Path("a"), frames=True) == "vectors"


@pytest.mark.parametrize("comments", ["", "# sent_id = 1\n"])
def test_conllu_is_detected_by_its_columns(comments: str, tmp_path: Path) -> None:
    rows = UD[UD.index("\n") + 1 :]
    path = write(tmp_path, "x.txt", f"{comments}{rows}{comments}{rows}")
    reader = TaggedReader()
    assert [one.labels for one in reader.read(path)] == [("X", "Y")] * 2
    assert reader.inspect(path) == ({}, "CoNLL-U: word from column 2 'form', label from column 4 'upos'")
    assert reader.detect(write(tmp_path, "y.txt", rows.replace("\n2\t", "\n7\t"))) == "conll"
    assert reader.detect(write(tmp_path, "z.txt", rows.replace("\t_\n", "\n"))) == "conll"


def test_columns_of_conll_are_named(tmp_path: Path) -> None:
    text = "EU NNP B-NP ORG\nrejects VBZ O O\n"
    path = write(tmp_path, "a.conll", text)
    taken = (
        "word from column 1 (task.word_column = 0), label from column {} (task.label_column = {}); not read: columns {}"
    )
    assert TaggedReader().inspect(path) == ({}, taken.format(4, 3, "2, 3"))
    assert TaggedReader(labels=1).inspect(path) == ({}, taken.format(2, 1, "3, 4"))
    headed = write(tmp_path, "b.conll", f"word pos chunk ner\n{text}")
    assert TaggedReader().inspect(headed)[1] == taken.format(4, 3, "2, 3") + "; line 1 is a header"
    assert TaggedReader().inspect(write(tmp_path, "c.conll", "a\nb\n")) == ({}, "")


def test_comments_before_sentences_are_no_rows(tmp_path: Path) -> None:
    path = write(tmp_path, "a.conll", "# sent_id = 1\n# text = a b\na X\n# Y\n\n# newpar\nc X\n")
    assert [(one.words, one.location.line) for one in read_conll(path)] == [(("a", "#"), 3), (("c",), 7)]


def test_columns_that_number_the_words_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "a.conll", "1 a X\n2 b Y\n3 c X\n\n" * 2)
    with pytest.raises(DataError, match=r"a.conll:1: column 1 counts 1, 2, 3, … within each sentence: set task.word_c"):
        TaggedReader().inspect(path)
    assert TaggedReader(words=1).inspect(path)[1].startswith("word from column 2")
    assert TaggedReader(words=0).inspect(path)[1].startswith("word from column 1")


def test_missing_empty_lines_are_reported(tmp_path: Path) -> None:
    path = write(tmp_path, "a.conll", "a X\n" * 1001)
    with pytest.raises(DataError, match=r"a.conll:1: found a single sentence of 1,001 words: separate .* empty lines"):
        TaggedReader().inspect(path)
    assert TaggedReader(format="conll").inspect(path)[1].startswith("word from column 1")
    TaggedReader().inspect(write(tmp_path, "b.conll", "a X\n" * 1001 + "\nb Y\n"))


@pytest.mark.parametrize(
    ("text", "words", "note"),
    [
        ("He is here\nShe was there\n", ["He is here", "She was there"], "each line is read as a sentence"),
        ("He is\n\nShe was there .\n", ["He is", "", "She was there ."], "each line is read as a sentence"),
        ("It rains .\nIt snows .\n", ["It rains .", "It snows ."], "each line is read as a sentence"),
        ("He NOUN\nis VERB\n", ["He is"], ""),
        ("He _\nis _\n", ["He is"], ""),
        ("He\nis\n\nhere\n", ["He is", "here"], ""),
        ("He x\nis y\n\nhere z\n", ["He is", "here"], "word from column 1 of 2, though column 2 holds no labels"),
        ("He\tx\nis\ty\n", ["He is"], "word from column 1 of 2, though column 2 holds no labels"),
    ],
)
def test_files_to_predict_may_hold_plain_sentences(text: str, words: list[str], note: str, tmp_path: Path) -> None:
    path = write(tmp_path, "x.txt", text)
    reader, actual = TaggedReader().for_inputs(path, {"NOUN", "VERB", "."}.__contains__)
    assert [" ".join(one.words) for one in reader.read(path) if isinstance(one, Sentence)] == words
    assert actual.startswith(note)
    assert bool(actual) == bool(note)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "\xe9 X\nb Y\n"),
        ({"format": "conllu"}, UD.replace("\ta\t", "\t\xe9\t")),
        ({"format": "lines"}, "\xe9 b\n"),
        ({"parallel": ("x", "y")}, "\xe9 b\n"),
    ],
)
def test_encodings(tmp_path: Path, options: Any, text: str) -> None:
    for name in "xy":
        (tmp_path / name).write_bytes(text.encode("latin-1"))
    (actual,) = TaggedReader(encoding="latin-1", **options).read(tmp_path / "x")
    assert isinstance(actual, Sentence)
    assert actual.words == ("é", "b")
    with pytest.raises(DataError, match=r"x:[13]: expected UTF-8, found byte 0xe9"):
        list(TaggedReader(**options).read(tmp_path / "x"))


def test_explicit_format_overrides_parallel_files(tmp_path: Path) -> None:
    path = write(tmp_path, "data", "a X\n")
    (actual,) = TaggedReader(format="conll", parallel=("seq.in", "seq.out")).read(path)
    assert actual.labels == ("X",)


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    def words(**options: Any) -> list[tuple[str, ...]]:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(b"a X\nb Y\n"))))
        return [one.words for one in TaggedReader(**options).read(Path("-")) if isinstance(one, Sentence)]

    assert words() == words(parallel=("in", "out")) == [("a", "X"), ("b", "Y")]
    assert words(format="conll") == [("a", "b")]


def test_iob1_is_converted_to_bio(tmp_path: Path) -> None:
    path = write(tmp_path, "a.conll", "a I-x\nb I-x\nc B-x\nd I-y\ne O\nf I-x\n")
    (converted,) = TaggedReader(convert_iob1=True).read(path)
    assert converted.labels == ("B-x", "I-x", "B-x", "B-y", "O", "B-x")
    (unchanged,) = TaggedReader().read(path)
    assert unchanged.labels == ("I-x", "I-x", "B-x", "I-y", "O", "I-x")


TABLE = """sentence_id,word,tag
1,EU,ORG
1,rejects,O
2,Peter,PER
"""
SENTENCES = [(("EU", "rejects"), ("ORG", "O")), (("Peter",), ("PER",))]


def sentences(source: Any) -> list[Any]:
    return [(example.words, example.labels) for example in TaggedReader().read(source) if isinstance(example, Sentence)]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x.csv", TABLE),
        ("x.csv", TABLE.replace(",", ";")),
        ("x.tsv", TABLE.replace(",", "\t")),
        ("x.csv", TABLE.replace("sentence_id,word,tag", "Sentence #,Word,Tag").replace("1,rejects", ",rejects")),
        ("x.csv", "word,tag\nEU,ORG\nrejects,O\n\nPeter,PER\n"),
        ("x.conll", "word tag\nEU ORG\nrejects O\n\nPeter PER\n"),
        ("x.conll", "EU ORG\nrejects O\n\nPeter PER\n"),
        (
            "x.jsonl",
            '{"tokens": ["EU", "rejects"], "ner_tags": ["ORG", "O"]}\n{"tokens": ["Peter"], "ner_tags": ["PER"]}',
        ),
        ("x.csv", "text,tags\nEU rejects,ORG O\nPeter,PER\n"),
        ("x.csv", "id;Sentence;NER tags\n1;EU rejects;ORG O\n2;Peter;PER\n"),
        ("x.jsonl", '{"text": "EU rejects", "labels": ["ORG", "O"]}\n{"text": "Peter", "labels": ["PER"]}'),
        ("x.json", '[{"words": ["EU", "rejects"], "labels": ["ORG", "O"]}, {"words": ["Peter"], "labels": ["PER"]}]'),
    ],
)
def test_words_in_tables(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert sentences(tmp_path / name) == SENTENCES


def test_words_in_frames() -> None:
    columns = {"sentence_id": [1, 1, 2], "word": ["EU", "rejects", "Peter"], "tag": ["ORG", "O", "PER"]}
    assert sentences(columns) == SENTENCES
    lists = {"tokens": [["EU", "rejects"], ["Peter"]], "tags": [["ORG", "O"], ["PER"]]}
    assert sentences(pytest.importorskip("polars").DataFrame(lists)) == SENTENCES
    assert sentences({"tokens": [["EU"]]}) == [(("EU",), None)]


def test_sentences_in_rows_may_have_no_labels(tmp_path: Path) -> None:
    """The column is the one of training; a word per row, such as New York, is no sentence."""
    path = write(tmp_path, "x.csv", "id,text\n1,EU rejects\n2,Peter\n3,a b\n")
    reader = TaggedReader(words="text", labels="tags")
    assert [example.words for example in reader.read(path) if isinstance(example, Sentence)] == [
        ("EU", "rejects"),
        ("Peter",),
        ("a", "b"),
    ]
    settings, note = TaggedReader().inspect(write(tmp_path, "y.csv", "id,text,tags\n1,a b,X Y\n"))
    assert settings == {"word_column": "text", "label_column": "tags"}
    assert note == "word from column 2 'text', label from column 3 'tags'; not read: column 'id'"
    path = write(tmp_path, "z.csv", "id,word,tag\n1,in,O\n1,New York,LOC\n")
    assert sentences(path) == [(("in", "New York"), ("O", "LOC"))]


def test_columns_of_words_are_named(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text(TABLE)
    settings, note = TaggedReader().inspect(path)
    assert settings == {"word_column": "word", "label_column": "tag", "group_column": "sentence_id"}
    assert note == "word from column 2 'word', label from column 3 'tag', sequence from column 1 'sentence_id'"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,word,tag\n1,a,X\n2,b,Y\n1,c,X\n", "x.csv:4: the rows of sentence '1' are not consecutive"),
        ("word,tag\na,X\nb,Y\n", "x.csv:1: cannot tell which column holds the number of the sentence"),
        ("id,word,tag\n1,a,X\n1,b,\n", "x.csv:3: the label of a word is missing"),
        ("text,tags\na b c,X Y X\nd e,X Y X\n", "x.csv:3: found 2 words, but 3 labels"),
    ],
)
def test_errors_in_tables_of_words(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(DataError, match=message.replace(".", r"\.")):
        sentences(tmp_path / "x.csv")


def test_long_tables_have_a_label_per_frame(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("id,time,ax,ay,activity\n7,0,1,2,sit\n7,1,3,4,walk\n8,0,5,6,sit\n8,1,5,6,sit\n")
    first, second = TaggedReader().read(path)
    assert isinstance(first, VectorSequence)
    assert isinstance(second, VectorSequence)
    assert first.values.tolist() == [[1, 2], [3, 4]]
    assert (first.labels, second.labels) == (("sit", "walk"), ("sit", "sit"))


def test_label_column_of_frames_may_be_named(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("state,ax,ay\nsit,1,2\nwalk,3,4\n\nsit,5,6\n")
    actual = list(TaggedReader(labels="state").read(path))
    assert [example.labels for example in actual] == [("sit", "walk"), ("sit",)]


def test_one_file_per_recording(tmp_path: Path) -> None:
    for name, value in (("a", 1), ("b", 5)):
        (tmp_path / f"{name}.csv").write_text(f"time,ax,activity\n0,{value},sit\n1,2,walk\n")
    actual = list(TaggedReader().read(tmp_path))
    assert [example.labels for example in actual] == [("sit", "walk")] * 2
    assert TaggedReader().inspect(tmp_path)[1] == (
        "2 recordings, one per file: time from column 1 'time', label from column 3 'activity'; 1 channel: ax"
    )
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="empty: no table in the folder"):
        list(TaggedReader().read(tmp_path / "empty"))


def test_a_folder_of_parallel_files_names_the_setting(tmp_path: Path) -> None:
    (tmp_path / "seq.out").write_text("O B-x\nO\nB-x O O\n")
    (tmp_path / "seq.in").write_text("play jazz\nstop\ncall me now\n")
    (tmp_path / "label").write_text("Play\nStop\nCall\n")
    (tmp_path / "image").write_bytes(b"\x00\xff")
    with pytest.raises(DataError, match=r"no table in the folder") as error:
        list(TaggedReader().read(tmp_path))
    command = error.value.message.partition("of the first: ")[2]
    *words, setting = shlex.split(command)
    assert words == ["seqloom", "train", "--task", "tag", "--data", str(tmp_path / "seq.in")]
    assert setting == 'task.parallel=["seq.in", "seq.out"]'
    assert len(list(TaggedReader(parallel=("seq.in", "seq.out")).read(tmp_path / "seq.in"))) == 3


def test_vectors_in_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"values": [[1, 2], [null, 4.5]], "labels": ["a", "b"]}\n{"values": [3, 4], "labels": [0, 1]}\n')
    reader = TaggedReader(missing="hold")
    assert reader.inspect(path)[1] == "vectors from column 1 'values', label from column 2 'labels'"
    sequences = [example for example in reader.read(path) if isinstance(example, VectorSequence)]
    actual = [(sequence.values.tolist(), sequence.labels) for sequence in sequences]
    assert actual == [([[1, 2], [1, 4.5]], ("a", "b")), ([[3], [4]], ("0", "1"))]
    with pytest.raises(DataError, match=r"x\.jsonl:1: element 2 of channel 1 is missing"):
        list(TaggedReader().read(path))
    frame: Any = {"values": [np.array([[1, 2], [3, 4]])], "labels": [["a", "b"]]}  # as a data frame holds them
    assert [example.labels for example in TaggedReader().read(frame)] == [("a", "b")]
    path.write_text('{"values": [[1, 2], [3, 4]], "labels": ["a"]}\n')
    with pytest.raises(DataError, match=r"found 2 vectors, but 1 label$"):
        list(TaggedReader().read(path))


def test_missing_values_of_vectors_are_held_but_not_those_of_targets(tmp_path: Path) -> None:
    table = tmp_path / "x.csv"
    table.write_text("id,time,force,position\n0,0,1,2\n0,1,,3\n0,2,5,4\n")
    options: Any = {"target_type": "number", "labels": "position"}
    with pytest.raises(DataError, match=r"x\.csv:3: element 2 of column 'force' is missing; task\.missing = \"hold\""):
        list(TaggedReader(**options).read(table))
    (held,) = TaggedReader(**options, missing="hold").read(table)
    assert isinstance(held, VectorSequence)
    assert held.values.tolist() == [[1], [1], [5]]
    table.write_text("id,time,force,position\n0,0,1,2\n0,1,3,\n0,2,5,4\n")
    with pytest.raises(DataError, match=r"x\.csv:3: the label is missing"):
        list(TaggedReader(**options, missing="hold").read(table))
    series = tmp_path / "x.ts"
    for last, error in (("5,?,6", "element 2 of channel 2 is missing, and it is a target"), ("5,7,6", "")):
        series.write_text(f"@classLabel false\n@data\n1,?,2:{last}\n")
        reader = TaggedReader(target_type="number", missing="hold")
        if error:
            with pytest.raises(DataError, match=error):
                list(reader.read(series))
        else:
            (held,) = reader.read(series)
            assert isinstance(held, VectorSequence)
            assert held.target is not None
            assert (held.values.tolist(), held.target.tolist()) == ([[1], [1], [2]], [[5], [7], [6]])


def test_a_range_selects_rows_of_each_sequence(tmp_path: Path) -> None:
    rows = "".join(f"{second},{second * 2},{second % 3}\n" for second in range(10))
    path = tmp_path / "x.csv"
    path.write_text(f"time,ax,power\n{rows}")
    reader = TaggedReader(labels="power", target_type="number")
    (whole,) = reader.read(path)
    first, last = (next(reader.read(tmp_path / f"x.csv[{part}]")) for part in ("0:0.8", "8:"))
    assert whole.target is not None
    for part, rows_of in ((first, slice(0, 8)), (last, slice(8, 10))):
        assert isinstance(part, VectorSequence)
        assert isinstance(whole, VectorSequence)
        assert np.array_equal(part.values, whole.values[rows_of])
        assert part.target is not None
        assert np.array_equal(part.target, whole.target[rows_of])
    assert last.location.line == 10  # the header is line 1
    assert reader.inspect(tmp_path / "x.csv[0:0.8]") == reader.inspect(path)
    (tmp_path / "x.conll").write_text("a X\nb Y\n")
    with pytest.raises(DataError, match="a range of rows is for vectors; found sentences"):
        list(TaggedReader().read(tmp_path / "x.conll[0:1]"))


def test_columns_that_may_name_the_sequences(tmp_path: Path) -> None:
    rows = "".join(f"M{row // 4},{row},{row // 4},{row * 7 % 5},{row % 2}\n" for row in range(24))
    path = tmp_path / "x.csv"
    path.write_text(f"machine,time,unit,ax,power\n{rows}")
    advice = TaggedReader(labels="power").single_sequence_advice(path)
    assert advice.startswith("set task.group_column to machine or unit, or hold out its last rows with task.train=")
    assert "x.csv[0:0.9] task.dev=" in advice


LONG = "id,time,force,position\n1,0,0.5,1.5\n1,1,0.7,1.7\n2,0,0.1,1.1\n2,1,0.2,1.2\n"
WORDS = "sentence,word,pos_tag_x,lemma_x\n1,a,X,a\n1,b,Y,b\n2,c,X,c\n"


@pytest.mark.parametrize(
    ("text", "labels", "problem"),
    [
        (
            LONG,
            "speed",
            r"x\.csv:1: no column 'speed' \(task\.label_column\); the header has id, time, force, position",
        ),
        (LONG, ("position", "forc"), r"no column 'forc' .*; did you mean 'force'\?"),
        (LONG, 7, r"task\.label_column is 7, but there are only 4 columns"),
        (LONG, None, r"x\.csv:1: no column is known to hold the labels: set .* to one of 'force', 'position'$"),
        (WORDS, "speed", r"x\.csv:1: no column 'speed' \(task\.label_column\); the header has sentence, word"),
        (WORDS, None, r"no column is known to hold the labels: set .* to one of 'pos_tag_x', 'lemma_x'$"),
    ],
)
def test_training_data_without_a_column_of_labels(tmp_path: Path, text: str, labels: Any, problem: str) -> None:
    path = write(tmp_path, "x.csv", text)
    reader = TaggedReader(labels=labels)
    with pytest.raises(DataError, match=problem):
        reader.inspect(path)
    assert not any(sequence.labels or sequence.target is not None for sequence in reader.read(path))  # to predict


@pytest.mark.parametrize("labels", [("position", "force"), (2, 3)])
def test_all_numbers_are_targets(tmp_path: Path, labels: tuple[int | str, ...]) -> None:
    path = write(tmp_path, "x.csv", LONG)
    with pytest.raises(DataError, match=r"no column of numbers is left to predict from: targets from columns"):
        list(TaggedReader(labels=labels).read(path))
    (tmp_path / "y.csv").write_text("force,position\n0.5,1.5\n\n0.1,1.1\n")
    with pytest.raises(DataError, match=r"no column is left to predict from: .* takes 'force,position'"):
        list(TaggedReader(labels=(0, 1)).read(tmp_path / "y.csv"))
    (tmp_path / "z.csv").write_text("id,time,force\n1,0,0.5\n1,1,0.7\n2,0,0.1\n2,1,0.2\n")
    with pytest.raises(DataError, match=r"is left to predict from: label from column 3 'force' \(task\.label_column\)"):
        list(TaggedReader(labels="force").read(tmp_path / "z.csv"))
