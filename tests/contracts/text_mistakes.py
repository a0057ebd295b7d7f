"""Deliberate mistakes with tagged words, pairs of texts, plain text, recordings and images."""

import random
from collections.abc import Iterator

from tests.contracts.mistakes import Files, Mistake, reviews


def tagged(separator: str = " ", *, swapped: bool = False, names: str = "DET NOUN VERB ADJ") -> str:
    draw = random.Random(0)  # noqa: S311
    words = dict(zip(names.split(), ("the a", "cat dog tree house", "runs sleeps", "red big"), strict=True))
    sentences = []
    for _ in range(30):
        labels = draw.choices(list(words), k=draw.randint(3, 7))
        pairs = [(draw.choice(words[label].split()), label) for label in labels]
        sentences.append("".join(separator.join(pair[::-1] if swapped else pair) + "\n" for pair in pairs))
    return "\n".join(sentences)


def pairs(separator: str = "\t", header: str = "") -> str:
    german, english = (
        ["eins", "zwei", "drei", "vier", "acht", "zehn", "elf"],
        ["one", "two", "three", "four", "eight", "ten", "eleven"],
    )
    rows = [
        f"ich sehe {german[one]} und {german[two]}{separator}i see {english[one]} and {english[two]}"
        for one in range(7)
        for two in range(7)
    ]
    return "\n".join(([header] if header else []) + rows) + "\n"


SPANS = "John {}\nSmith {}\nin {}\nRome {}\n\nMary {}\nPoppins {}\nleft {}\nOslo {}\n\n"


def spans(first: str, second: str, outside: str, single: str) -> str:
    return SPANS.format(*[first, second, outside, single] * 2) * 8


def linguist() -> Iterator[Mistake]:
    """Tags, pairs of texts, plain text."""

    def tag(name: str, text: str, says: str, *changes: str, fails: bool = True, file: str = "t.txt") -> Mistake:
        return Mistake(
            f"tag: {name}", {file: text}, " ".join([f"check --task tag --data {file}", *changes]), says, fails
        )

    words = r"word from column 1 \(task.word_column = 0\), label from column 2"
    yield tag("blanks", tagged(), words, fails=False)
    yield tag("tabs", tagged("\t"), words, fails=False)
    yield tag("Windows line ends", tagged().replace("\n", "\r\n"), words, fails=False)
    yield tag("a header", "word tag\n" + tagged(), "line 1 is a header", fails=False)
    yield tag("labels first", tagged(swapped=True), "are the columns exchanged", fails=False)
    yield tag("no empty lines", tagged().replace("\n\n", "\n"), "put an empty line after each sentence")
    yield tag(
        "word/label",
        "the/DET cat/NOUN\na/DET red/ADJ dog/NOUN\n" * 9,
        "expected 2 columns as in the rows above, found 3",
    )
    yield tag(
        "a line without its label",
        tagged().replace("cat NOUN", "cat", 1),
        "expected 2 columns as in the rows above, found 1",
    )
    yield tag(
        "a line with three columns", tagged().replace("cat NOUN", "cat NOUN X", 1), "expected 2 columns .* found 3"
    )
    yield tag("a no-break space", tagged("\u00a0"), "without a label")
    yield tag("IOB1", spans("I-PER", "I-PER", "O", "I-LOC"), "task.convert_iob1 = true")
    yield tag("a zero for O", spans("B-PER", "I-PER", "0", "B-LOC"), "the label '0' is not read as a part of a span")
    yield tag("BIO in lowercase", spans("b-per", "i-per", "o", "b-loc"), "the label 'b-per' is not read as a part")
    yield tag("BILOU", spans("B-PER", "L-PER", "O", "U-LOC"), "the label 'L-PER' is not read as a part of a span")
    yield tag(
        "another type inside a span", spans("B-PER", "I-LOC", "O", "B-LOC"), "labels out of order.*I-LOC follows B-PER"
    )
    yield tag("a column too far", tagged(), "task.label_column is 4, but there are only 2", "task.label_column=4")
    yield tag("one column twice", tagged(), "both", "task.label_column=1", "task.word_column=1")
    rows = "".join(f"Sentence: {n // 4},w{n * n % 17},{'AB'[n % 2]}\n" for n in range(80))
    yield tag(
        "a table",
        "Sentence #,Word,POS\n" + rows,
        "word from column 2 'Word', label from column 3 'POS', seq",
        fails=False,
        file="t.csv",
    )
    lists = '{"tokens": ["the", "cat"], "tags": ["DET"]}\n' * 20
    yield tag("lists of different lengths", lists, "t.jsonl:1: found 2 words, but 1 label", file="t.jsonl")
    yield tag("reviews", reviews(), "data for the task classify", file="t.csv")
    small = {"t.txt": tagged(), "d.txt": tagged(names="det noun verb adj")}
    yield Mistake(
        "tag: dev with other labels",
        small,
        "check --task tag --data t.txt task.dev=d.txt",
        "labels not in train.*train has 'NOUN'|train has 'DET'|train has 'ADJ'|train has 'VERB'",
    )

    def pair(name: str, files: Files, says: str, *changes: str, fails: bool = True) -> Mistake:
        (file,) = list(files)[:1]
        return Mistake(
            f"pairs: {name}", files, " ".join([f"check --task translate --data {file}", *changes]), says, fails
        )

    columns = r"source from column 1 \(task.source_column = 0\), target from column 2"
    yield pair("tabs", {"p.tsv": pairs()}, columns, fails=False)
    yield pair(
        "languages as header",
        {"p.tsv": pairs(header="de\ten")},
        "source from column 1 'de', target from column 2 'en'",
        fails=False,
    )
    yield pair(
        "target first",
        {"p.csv": pairs(",", "target,source")},
        "source from column 2 'source', target from column 1",
        fails=False,
    )
    yield pair(
        "ids",
        {"p.tsv": "".join(f"{n}\t{line}\n" for n, line in enumerate(pairs().splitlines()))},
        "source from column 2 .*target from column 3",
        fails=False,
    )
    yield pair("no tabs", {"p.tsv": pairs(" ")}, "expected a column with the source and a column with the target")
    yield pair("only one language", {"p.de": "ich sehe es\nwir sehen sie\n" * 20}, "without a target")
    yield pair(
        "both columns equal",
        {"p.tsv": "".join(f"wort {n}\twort {n}\n" for n in range(40))},
        "input and target are equal in",
        fails=False,
    )
    yield pair("one column twice", {"p.tsv": pairs()}, "are both", "task.source_column=1", "task.target_column=1")
    yield pair(
        "empty targets", {"p.tsv": pairs().replace("i see eight and ten", "")}, "target without tokens", fails=False
    )
    yield pair("three bars without a separator", {"p.txt": pairs(" ||| ")}, "without a target")
    yield pair("reviews", {"p.csv": reviews()}, "data for the task classify")
    lines = {"p.de": "ich\ndu\n" * 20, "p.en": "i\nyou\n" * 19}
    yield Mistake(
        "pairs: files of different lengths",
        lines,
        "check --task translate --data p.{de,en}",
        "p.en.* (ends|fewer|line)|lines",
    )
    yield Mistake(
        "pairs: a missing file", lines, "check --task translate --data p.{de,fr}", "p.fr.*no such file|no such file"
    )

    def text(name: str, files: Files, says: str, *changes: str, fails: bool = True) -> Mistake:
        (file,) = files
        return Mistake(
            f"text: {name}", files, " ".join([f"check --task language_model --data {file}", *changes]), says, fails
        )

    yield text("a table", {"a.csv": reviews()}, "text from column 1 'text'", fails=False)
    yield text("JSON lines", {"a.jsonl": objects_with_text()}, "text from column 1 'text'", fails=False)
    yield text(
        "two columns of texts",
        {"a.csv": "a,b\n" + "one two three,four five six\n" * 30},
        "cannot tell which column holds the text",
    )
    yield text("a column that is not there", {"a.csv": reviews()}, "no column 'txt'", "task.text_column=txt")
    yield text("one word", {"a.txt": "hello\n"}, "found no examples to train on: of 1 example, 1 is held out")
    yield text("bytes", {"a.txt": bytes(range(256))}, "found a NUL byte")
    yield text("a PDF", {"a.txt": b"%PDF-1.4\n" + bytes(range(32, 127))}, "a PDF document")
    yield text(
        "a pointer of Git LFS",
        {"a.txt": "version https://git-lfs.github.com/spec/v1\noid x\nsize 1\n"},
        "pointer of Git LFS",
    )
    yield text("tagged words", {"a.txt": tagged()}, "data for the task tag")
    yield Mistake(
        "text: dev is train",
        {"a.txt": "".join(f"line {n} of it\n" for n in range(60))},
        "check --task language_model --data a.txt task.dev=a.txt",
        "all of its content also occurs in train",
    )
    yield Mistake(
        "words: JSON lines",
        {"a.jsonl": objects_with_text()},
        "check --task embed --data a.jsonl task.min_count=1",
        "text from column 1 'text'",
        fails=False,
    )
    for task, noun in (("transcribe", "recording"), ("caption", "image")):
        missing = {
            "l.tsv": "".join(
                f"{noun}{n}.{'wav' if task == 'transcribe' else 'png'}\tthe text of {n}\n" for n in range(20)
            )
        }
        yield Mistake(
            f"{task}: missing files", missing, f"check --task {task} --data l.tsv", f"l.tsv:1: no file '{noun}0"
        )
        yield Mistake(
            f"{task}: reviews", {"l.csv": reviews()}, f"check --task {task} --data l.csv", "data for the task classify"
        )
        damaged: Files = {**missing, f"{noun}0.{'wav' if task == 'transcribe' else 'png'}": b"not a file of this kind"}
        yield Mistake(f"{task}: a damaged file", damaged, f"check --task {task} --data l.tsv", f"{noun}0")


def objects_with_text() -> str:
    return "".join(f'{{"text": "hello {number} world of words", "id": {number}}}\n' for number in range(60))
