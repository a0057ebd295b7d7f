"""Deliberate mistakes in data and commands, and what has to come of each: an error, a warning or the right result."""

import random
from collections.abc import Callable, Iterator, Mapping
from datetime import date, timedelta
from typing import NamedTuple

Files = Mapping[str, str | bytes]


class Mistake(NamedTuple):
    """A command in a folder with these files, and what it has to say."""

    name: str
    files: Files
    command: str
    says: str  # a regular expression
    fails: bool = (
        True  # an error; otherwise exit code 0 with a warning, a note, or the line that shows the right result
    )


def reviews(
    header: str | None = "text,label",
    order: str = "tl",
    *,
    labels: tuple[str, str] = ("pos", "neg"),
    separator: str = ",",
    count: int = 40,
    seed: int = 0,
) -> str:
    """Reviews with a label each; ``order`` of the columns: text, label, id, date."""
    draw = random.Random(seed)  # noqa: S311  data, not secrets
    words = ["film", "day", "book", "song", "play", "the", "a", "was", "is", "of"]
    rows = [header.replace(",", separator)] if header else []
    for number in range(count):
        sentiment = ("good great fine lovely", "bad awful poor sad")[number % 2].split()
        fields = {
            "t": " ".join([*draw.choices(words, k=4), draw.choice(sentiment), draw.choice(words)]),
            "l": labels[number % 2],
            "i": str(number + 1),
            "d": f"2024-01-{number % 28 + 1:02}",
        }
        rows.append(separator.join(fields[name] for name in order))
    return "\n".join(rows) + "\n"


def days(number: int) -> str:
    return (date(2023, 1, 1) + timedelta(number)).isoformat()


def series(
    value: Callable[[int], object] = lambda number: f"{10 + number % 7 + number / 50:.2f}",
    time: Callable[[int], str] = days,
    *,
    header: str = "date,sales",
    separator: str = ",",
    count: int = 60,
) -> str:
    rows = [header.replace(",", separator)] if header else []
    return "\n".join([*rows, *(f"{time(number)}{separator}{value(number)}" for number in range(count))]) + "\n"


def german(number: int) -> str:
    return (date(2023, 1, 1) + timedelta(number)).strftime("%d.%m.%Y")


CLASSIFY, TABLE = "check --task classify --data t.csv", "t.csv"
RIGHT = "text from column 1 'text', label from column 2 'label'"


def analyst() -> Iterator[Mistake]:
    """Tables of texts and labels: headers, roles, ids, encodings, separators."""

    def case(name: str, table: str | bytes, says: str, *changes: str, fails: bool = True) -> Mistake:
        return Mistake(name, {TABLE: table}, " ".join([CLASSIFY, *changes]), says, fails)

    ids = reviews("id,text,label", "itl")
    yield case("a usual table", reviews(), RIGHT, fails=False)
    yield case(
        "label first", reviews("label,text", "lt"), "text from column 2 'text', label from column 1", fails=False
    )
    yield case("no header", reviews(None), r"text from column 1 \(task.text_column = 0\), label from col", fails=False)
    yield case("tabs in .csv", reviews(separator="\t"), RIGHT, fails=False)
    yield case("semicolons", reviews(separator=";"), RIGHT + "; columns separated by ';'", fails=False)
    yield case("bars", reviews(separator="|"), RIGHT, fails=False)
    yield case("an id", ids, "text from column 2 'text', label from column 3 'label'", fails=False)
    yield case("a date", reviews("date,text,label", "dtl"), "text from column 2 'text', label from", fails=False)
    yield case("German names", reviews("Kommentar,Bewertung"), "text from column 1 'Kommentar'", fails=False)
    yield case("unusual names", reviews("a,b"), "text from column 1 'a', label from column 2 'b'", fails=False)
    yield case(
        "the id as label", ids, "a label that occurs only once .* is it the right column", "task.label_column=id"
    )
    yield case("the id as text", ids, "all texts are numbers: is it the right", "task.text_column=id", fails=False)
    yield case("the text as label", ids, "occurs only once", "task.label_column=text", "task.text_column=label")
    yield case(
        "one column twice", ids, "are both the column 'label'", *[f"task.{c}_column=label" for c in ("text", "label")]
    )
    yield case(
        "only the text named", reviews(), "cannot tell which column|is it the right column", "task.text_column=label"
    )
    yield case("a typo in a name", ids, "no column 'lable'.*did you mean 'label'", "task.label_column=lable")
    yield case("another case", ids, "no column 'Label'.*did you mean 'label'", "task.label_column=Label")
    yield case("a column too far", ids, "task.label_column is 7, but there are only 3", "task.label_column=7")
    yield case("task.label", ids, 'unknown key "task.label"; did you mean "task.label_column"', "task.label=label")
    yield case("task.text", ids, 'did you mean "task.text_column"', "task.text=text")
    yield case(
        "two texts",
        "a,b,label\n" + "the cat is red,a dog was big,x\nthe dog is big,a cat was red,y\n" * 20,
        "cannot tell which column holds the text",
    )
    yield case("one label", reviews(labels=("pos", "pos")), "all .* examples have the same label 'pos'")
    yield case("a blank after a label", reviews(labels=("pos", "pos ")), "have the same label 'pos'")
    yield case("labels in two cases", reviews(labels=("pos", "Pos")), "differ only in case", fails=False)
    yield case("missing labels", reviews(labels=("pos", "")), "examples? without a label, first t.csv:3")
    yield case("labels nan", reviews(labels=("pos", "nan")), "'nan' .* usually stands for a missing", fails=False)
    yield case("labels NA", reviews(labels=("NA", "neg")), "'NA' .* usually stands for a missing", fails=False)
    yield case(
        "prices as labels",
        "review,price\n" + "".join(f"the book {n} is good,{n / 7:.2f}\n" for n in range(40)),
        "label from column 2 .price. .*targets are numbers, 0.00 to 5.57",
        fails=False,
    )
    yield case("stars", reviews(labels=("1", "5")), "taken as classes|label from column 2", fails=False)
    yield case(
        "Latin-1",
        reviews().replace("film", "fílm").encode("latin-1"),
        "t.csv:\\d+: expected UTF-8, found byte 0xed.*task.encoding",
    )
    yield case("UTF-16", reviews().encode("utf-16"), RIGHT, fails=False)
    yield case("a byte order mark", reviews().encode("utf-8-sig"), RIGHT, fails=False)
    yield case("an unknown encoding", reviews(), "encoding", "task.encoding=utf-9")
    yield case(
        "a comma without quotes",
        reviews().replace("day", "day, yes"),
        "expected 2 fields as in the first record, found",
    )
    yield case(
        "quotes and commas",
        "text,label\n" + "".join(f'"good, ""very"" {w}",a\n"bad, {w}",b\n' for w in reviews(None).split()),
        RIGHT,
        fails=False,
    )
    yield case(
        "an open quote",
        reviews().replace("\nthe ", '\n"the ', 1).replace("\na ", '\n"a ', 1),
        "a quotation mark opens a field here",
    )
    yield case("joined files", reviews() + reviews(seed=1), "t.csv:42: repeats the header of line 1")
    yield case("equal names", reviews("text,text"), "duplicate column names: text")
    yield case("an empty file", "", "there are no examples")
    yield case("only a header", "text,label\n", "there are no examples")
    yield case("one row", "text,label\na b c,d\n", "there are no development examples")
    yield case(
        "a page of an error",
        "<!DOCTYPE html><html><body>not found</body></html>\n",
        "expected a column with the text and",
    )
    yield case("an error as JSON", '{"error": "not found"}\n', "found only 'error'")
    yield case(
        "a pointer of Git LFS",
        "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12\n",
        "pointer of Git LFS.*git lfs pull",
    )
    yield case("a damaged archive", b"PK\x03\x04" + bytes(100), "zip archive is damaged")
    yield case("a pickle", b"\x80\x04\x95" + bytes(50), "a Python pickle")
    yield case("a picture", b"\x89PNG\r\n\x1a\n" + bytes(50), "PNG image")
    yield case("a PDF", b"%PDF-1.4\n" + bytes(range(32, 127)), "a PDF document")
    yield case("NUL bytes", reviews().replace("film", "fi\0lm").encode(), "found a NUL byte")
    yield case("a wrong separator", reviews(), "expected|cannot", "task.separator=;")
    dev = {TABLE: reviews()}
    for name, other, says, fails in (
        ("dev in another order", reviews("label,text", "lt", seed=1), RIGHT, False),
        ("dev without a header", reviews(None, seed=1), "no column 'text': the first row is not a header", True),
        ("dev with other names", reviews("utterance,intent", seed=1), "no column 'text'", True),
        ("dev is train", reviews(), "all of its content also occurs in train", True),
        (
            "dev with other labels",
            reviews(labels=("+", "-"), seed=1),
            "labels not in train, which cannot be predicted",
            True,
        ),
        ("dev with labels in capitals", reviews(labels=("POS", "NEG"), seed=1), "train has 'pos'", True),
        ("dev empty", "", "no examples", True),
    ):
        yield Mistake(name, {**dev, "d.csv": other}, f"{CLASSIFY} task.dev=d.csv", says, fails)
    yield Mistake("dev missing", dev, f"{CLASSIFY} task.dev=d.csv", "d.csv: no such file")
    texts = [line.split(",") for line in reviews(None, labels=("x", "y")).splitlines()]
    objects = "".join(f'{{"text": "{text}", "label": "{label}"}}\n' for text, label in texts)
    for name, file, content, says, fails in (
        ("JSON lines", "t.jsonl", objects, RIGHT, False),
        ("JSON lines in .json", "t.json", objects, RIGHT, False),
        ("an array in one line", "t.json", f"[{','.join(objects.splitlines())}]", RIGHT, False),
        ("a missing key", "t.jsonl", objects + '{"text": "x"}\n', "1 example without a label, first t.jsonl:41", True),
        (
            "an object around the rows",
            "t.json",
            f'{{"data": [{",".join(objects.splitlines())}]}}',
            "expected a column with the text",
            True,
        ),
        ("broken JSON", "t.jsonl", objects + '{"text": "x", \n', "t.jsonl:41", True),
        ("lists of labels", "t.jsonl", objects.replace('"x"', '["x", "z"]'), "expected", True),
        ("one text in quotes", "t.jsonl", '"just a text"\n' * 20, "expected", True),
    ):
        yield Mistake(name, {file: content}, f"check --task classify --data {file}", says, fails)


FORECAST = "check --task forecast --data s.csv"


def forecaster() -> Iterator[Mistake]:
    """Time series: dates, numbers, gaps, several series, development data."""

    def case(name: str, table: str, says: str, *changes: str, fails: bool = True) -> Mistake:
        return Mistake(name, {"s.csv": table}, " ".join([FORECAST, *changes]), says, fails)

    every_day = "2023-01-01 to 2023-03-01, every day"
    yield case("a usual series", series(), every_day, fails=False)
    yield case("a series without a header", series(header=""), every_day, fails=False)
    yield case("numbers as dates", series(time=lambda n: days(n).replace("-", "")), every_day, fails=False)
    yield case(
        "month first",
        series(time=lambda n: "{1}/{2}/{0}".format(*days(n).split("-"))),
        every_day + ".*month first",
        fails=False,
    )
    yield case("day first", series(time=lambda n: german(n).replace(".", "/")), every_day + ".*day first", fails=False)
    yield case("ambiguous dates", series(time=lambda n: f"{n + 1:02}/01/2023", count=12), "set task.date_order")
    yield case(
        "dates as fractions",
        series(time=lambda n: f"{1958 + n / 12:.2f}"),
        "time axis from column 1 'date' \\(1958.00",
        fails=False,
    )
    yield case(
        "year and quarter",
        "year,quarter,gdp\n" + "".join(f"{1990 + n // 4},{n % 4 + 1},{n * 2.5 + n % 3}\n" for n in range(80)),
        "'year' and column 2 'quarter'",
        fails=False,
    )
    yield case(
        "Unix time",
        series(time=lambda n: str(1700000000 + 3600 * n)),
        "2023-11-14 22:13:20 to .*every hour",
        fails=False,
    )
    yield case("an index without a name", series(time=str, header=",value"), "time axis from the index", fails=False)
    yield case(
        "months by name",
        series(time=lambda n: date(2000 + n // 12, n % 12 + 1, 1).strftime("%b %Y")),
        "every month",
        fails=False,
    )
    yield case("weeks", series(time=lambda n: f"2023-W{n % 52 + 1:02}", count=50), "every week", fails=False)
    yield case(
        "newest first",
        "date,x\n" + "".join(reversed(series(header="").splitlines(keepends=True))),
        "time runs backwards in column 'date'; sort",
    )
    yield case("a date again", series() + "2023-01-05,3\n", "1 out of order", fails=False)
    yield case("each date twice", series(time=lambda n: days(n // 2)), "30 repeated", fails=False)
    yield case("a gap", series(time=lambda n: days(n + 5 * (n > 30))), "1 after a gap .*5 missing", fails=False)
    yield case(
        "a date that does not exist",
        series().replace("2023-02-28", "2023-02-30"),
        "expected a date as in the 58 rows before, found '2023-02-30'",
    )
    yield case("a total in the last row", series() + "Total,600\n", "found 'Total'; remove or correct the row")
    yield case("a date as the target", series(), "date", "task.target=date", "task.columns=date")
    yield case(
        "missing values",
        series(lambda n: "" if n == 30 else n % 9),
        "s.csv:32: column sales: missing value; task.fill_missing",
    )
    yield case("NA", series(lambda n: "NA" if n == 30 else n % 9), "s.csv:32: column sales: missing value")
    yield case("a dash", series(lambda n: "-" if n == 30 else n % 9), "expected a number, found '-'")
    yield case(
        "a word",
        series(lambda n: "closed" if n == 30 else n % 9),
        "s.csv:32: column sales: expected a number, found 'closed'",
    )
    yield case("infinity", series(lambda n: "inf" if n == 30 else n % 9), "s.csv:32")
    yield case(
        "-999 for missing", series(lambda n: -999 if n % 20 == 7 else n % 9), "3 times -999, far outside", fails=False
    )
    yield case("dollars", series(lambda n: f"${n % 9}.50"), "numbers with a unit.*remove '\\$'")
    yield case("percent", series(lambda n: f"{n % 9}%"), "numbers with a unit.*remove '%'")
    yield case(
        "decimal commas", series(lambda n: f"{n % 7},{n % 10}5", separator=";"), "decimal comma: sales", fails=False
    )
    yield case(
        "both decimal marks",
        series(lambda n: f"{n % 7}{',.'[n > 40]}{n % 10}5", separator=";"),
        "is no number with a decimal comma",
    )
    yield case(
        "thousands with points",
        series(lambda n: f"1.{100 + n * 7}", german, separator=";"),
        "may have a decimal point or a thousands separator",
    )
    yield case(
        "thousands with commas",
        series(lambda n: f'"1,{100 + n * 7}"'),
        "may have a decimal comma or a thousands separator",
    )
    yield case(
        "three decimals",
        series(lambda n: f"1.{100 + n * 7}"),
        "read with a decimal point, not as thousands",
        fails=False,
    )
    yield case(
        "thousands among decimals", series(lambda n: f'"1,{100 + n * 7}.5"'), "thousands separators: sales", fails=False
    )
    yield case("a constant series", series(lambda _: 5), "1 of 1 column never change", fails=False)
    yield case(
        "a constant column",
        "date,a,b\n" + "".join(f"{days(n)},{n % 7},3\n" for n in range(60)),
        "never change do not count in the scores: b",
        fails=False,
    )
    yield case("too short", series(count=5), "5 rows, expected at least task.history \\+ task.horizon")
    yield case("too long a horizon", series(), "60 rows, expected at least", "task.horizon=500")
    yield case("too long a history", series(), "set task.history to at most 58", "task.history=1000")
    yield case("no horizon", series(), "task.horizon: expected a number greater than or equal to 1", "task.horizon=0")
    yield case(
        "stores below each other",
        "date,store,x\n" + "".join(f"{days(n)},{s},{n % 7}\n" for s in "AB" for n in range(30)),
        "column 'store' holds names",
    )
    yield case(
        "numbered stores",
        "date,store,x\n" + "".join(f"{days(n)},{s},{n % 7}\n" for n in range(30) for s in "12"),
        "seems to number 2 series",
    )
    yield case("a typo in columns", series(), "no column 'sale': did you mean sales", "task.columns=sale")
    yield case("a typo in target", series(), "no column 'sale'", "task.target=sale")
    yield case("a typo in date", series(), "no column 'dat'", "task.date=dat")
    yield case("another key for time", series(), 'did you mean "task.date"', "task.time_column=date")
    yield case("reviews", reviews(), "data for the task classify")
    yield case(
        "rows of different widths", series() + "2023-03-02,1,2\n", "expected 2 fields as in the first record, found 3"
    )
    two = "date,a,b\n" + "".join(f"{days(n)},{n % 9},{100 + n % 5}\n" for n in range(60))
    later = [days(n + 60) for n in range(30)]
    for name, other, says, fails in (
        (
            "dev in another order",
            "date,b,a\n" + "".join(f"{day},{100 + n % 5},{n % 9}\n" for n, day in enumerate(later)),
            r"No problems found",
            False,
        ),
        (
            "dev without a column",
            "date,a,c\n" + "".join(f"{day},{n % 9},{n % 5}\n" for n, day in enumerate(later)),
            "no column 'b'",
            True,
        ),
        ("dev is train", two, "overlaps that of the training data", False),
        ("dev before train", two.replace("2023-", "2021-"), "lies before that of the training data", False),
        ("dev too short", "\n".join(two.splitlines()[:6]) + "\n", "5 rows, expected at least", True),
    ):
        yield Mistake(f"forecast: {name}", {"s.csv": two, "d.csv": other}, f"{FORECAST} task.dev=d.csv", says, fails)
