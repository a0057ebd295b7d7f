"""Line numbers of keys, and readable syntax errors, against tomllib."""

import tomllib
from random import Random
from typing import Any

import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st

from seqloom.config.toml import KeyPath, TOMLSyntaxError, load

EVERY_SYNTAX = '''# a comment with [brackets] and "quotes
top = 1
a.b . "c d" = """
[not.a.table]
x = 1 \\""" still text"""""

[task]  # comment
name = 'its "name"'
"quoted \\"key\\" \\u00e9" = "a # b"
'literal.key' = 1979-05-27 07:32:00
empty = ""
inline = { x = 1, y.z = [2, { deep = "}" }], "w" = {} }
list = [
    "]", # ]
    [1, 2],

    { hidden = 3 },
    """
""",
    5,
]
after = \'\'\'
'quoted\\\'\'\'\'\'
last = true

[ task . encoder ]
hidden = +1_000

[[stack]]
size = 1
[stack.inner]
size = 2
[[stack]]
[[stack.more]]
size = 3
[[stack.more]]
[implicit.table]
x = 1
[implicit]
y = 2
'''


def test_every_syntax_of_toml() -> None:
    values, lines = load(EVERY_SYNTAX)
    assert values == tomllib.loads(EVERY_SYNTAX)
    assert lines == {
        ("top",): 2,
        ("a",): 3,
        ("a", "b"): 3,
        ("a", "b", "c d"): 3,
        ("task",): 7,
        ("task", "name"): 8,
        ("task", 'quoted "key" é'): 9,
        ("task", "literal.key"): 10,
        ("task", "empty"): 11,
        ("task", "inline"): 12,
        ("task", "inline", "x"): 12,
        ("task", "inline", "y"): 12,
        ("task", "inline", "y", "z"): 12,
        ("task", "inline", "y", "z", 0): 12,
        ("task", "inline", "y", "z", 1): 12,
        ("task", "inline", "y", "z", 1, "deep"): 12,
        ("task", "inline", "w"): 12,
        ("task", "list"): 13,
        ("task", "list", 0): 14,
        ("task", "list", 1): 15,
        ("task", "list", 1, 0): 15,
        ("task", "list", 1, 1): 15,
        ("task", "list", 2): 17,
        ("task", "list", 2, "hidden"): 17,
        ("task", "list", 3): 18,
        ("task", "list", 4): 20,
        ("task", "after"): 22,
        ("task", "last"): 24,
        ("task", "encoder"): 26,
        ("task", "encoder", "hidden"): 27,
        ("stack",): 29,
        ("stack", 0): 29,
        ("stack", 0, "size"): 30,
        ("stack", 0, "inner"): 31,
        ("stack", 0, "inner", "size"): 32,
        ("stack", 1): 33,
        ("stack", 1, "more"): 34,
        ("stack", 1, "more", 0): 34,
        ("stack", 1, "more", 0, "size"): 35,
        ("stack", 1, "more", 1): 36,
        ("implicit",): 39,
        ("implicit", "table"): 37,
        ("implicit", "table", "x"): 38,
        ("implicit", "y"): 40,
    }


def test_windows_line_endings() -> None:
    assert load('a = 1\r\n# x\r\nb = """\r\n"""\r\nc = [\r\n1]\r\n')[1] == {
        ("a",): 1,
        ("b",): 3,
        ("c",): 5,
        ("c", 0): 6,
    }


class Writer:
    """Writes values in a random form of TOML, and records the line of each."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)  # noqa: S311
        self.text = ""
        self.lines: dict[KeyPath, int] = {}

    def record_line(self, path: KeyPath) -> None:
        self.lines[path] = self.text.count("\n") + 1

    def gap(self) -> None:
        self.text += self.random.choice(["", "", " ", "\t", "\n", '# ] } = "\n', "\n\n  # x.y = '''\n\n"])

    def key(self, name: str) -> None:
        written = tomli_w.dumps({name: 0}).removesuffix(" = 0\n")
        literal = name.isprintable() and "'" not in name
        self.text += f"'{name}'" if literal and self.random.random() < 0.3 else written

    def table(self, table: dict[str, Any], path: KeyPath) -> None:
        later = []
        for name, first in table.items():
            here, value = (*path, name), first
            if isinstance(value, dict) and self.random.random() < 0.7:
                later.append((here, value))
                continue
            self.gap()
            self.record_line(here)
            self.key(name)
            while isinstance(value, dict) and len(value) == 1 and self.random.random() < 0.5:
                ((inner, value),) = value.items()
                here = (*here, inner)
                self.text += self.random.choice([".", " . "])
                self.record_line(here)
                self.key(inner)
            self.text += self.random.choice(["=", " = "])
            self.value(value, here, broken=True)
            self.text += self.random.choice(["\n", " # [x]\n"])
        for here, value in later:
            self.gap()
            self.record_line(here)
            self.text += "["
            for index, step in enumerate(here):
                self.text += "." * (index > 0)
                self.key(str(step))
            self.text += "]\n"
            self.table(value, here)

    def value(self, value: Any, path: KeyPath, *, broken: bool) -> None:
        if isinstance(value, dict):
            self.text += "{"
            for index, (name, item) in enumerate(value.items()):
                self.text += ", " * (index > 0)
                self.record_line((*path, name))
                self.key(name)
                self.text += " = "
                self.value(item, (*path, name), broken=False)
            self.text += "}"
        elif isinstance(value, list):
            self.text += "["
            for index, item in enumerate(value):
                self.gap()
                self.record_line((*path, index))
                self.value(item, (*path, index), broken=True)
                self.gap()
                self.text += "," * (index < len(value) - 1 or self.random.random() < 0.5)
            self.gap()
            self.text += "]"
        else:
            multiline = broken and isinstance(value, str)
            self.text += (
                tomli_w.dumps({"x": value}, multiline_strings=multiline).removeprefix("x = ").removesuffix("\n")
            )


names = st.text(st.characters(codec="utf-8"), max_size=4) | st.sampled_from(["a", "b.c", "#", '"', "[x]", "=", "\n"])
scalars = (
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.dates()
    | st.datetimes()
    | st.text(st.characters(codec="utf-8"), max_size=12)
    | st.text(st.sampled_from(list("\"'\\\n#[]{}=,. ax")), max_size=12)
)
documents = st.dictionaries(
    names,
    st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3)),
    max_size=4,
)


@given(documents, st.integers())
def test_each_key_has_the_line_that_it_was_written_on(document: dict[str, Any], seed: int) -> None:
    writer = Writer(seed)
    writer.table(document, ())
    values, lines = load(writer.text)
    assert values == tomllib.loads(writer.text)
    assert lines == writer.lines


@given(st.text(st.sampled_from(list("ab=.[]{}\"'\\\n, #1")), max_size=30))
def test_any_text_is_read_or_refused_with_a_line(text: str) -> None:
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        with pytest.raises(TOMLSyntaxError, match=r"\A.*\Z") as refused:
            load(text)
        assert 1 <= refused.value.line <= text.count("\n") + 1
    else:
        assert load(text)[1].keys() == paths(values)


def paths(value: Any, path: KeyPath = ()) -> set[KeyPath]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return {(*path, step) for step, _ in inner}.union(*(paths(item, (*path, step)) for step, item in inner))


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("[a]\ncell = lstm  # text\n", 2, 'strings need quotes: cell = "lstm"'),
        ("a.b=train data.tsv", 1, 'strings need quotes: a.b = "train data.tsv"'),
        ("a = C:\\x", 1, r'strings need quotes: a = "C:\\x"'),
        ("a = True", 1, "Booleans are lower case: a = true"),
        ("a = .5", 1, "invalid number: a = 0.5"),
        ("a =", 1, "invalid value: a ="),
        ("a = [x]", 1, "invalid value: a = [x]"),
        ("\n\n= 3", 3, "expected key = value, [table] or # comment: = 3"),
        ("\nhidden 3", 2, "expected = after the key: hidden 3"),
        ("a = 1 2", 1, "expected the end of the line after the value: a = 1 2"),
        ("[a\nb = 1", 1, "expected ] after the table name: [a"),
        ("[a]\n\n[a]", 3, "table defined twice: [a]"),
        ("a = 1\na = 2\n", 2, "key defined twice: a = 2"),
        ("a = { b = 1, b = 2 }", 1, "key defined twice: a = { b = 1, b = 2 }"),
        ('a = "x\nb = 1', 1, 'unterminated string: a = "x'),
        ('a = """x\nb = 1', 2, "unterminated string: b = 1"),
        ("a = 'x", 1, "unterminated string: a = 'x"),
        ("a = [1,\n2\n\n", 2, "list without a closing ]: 2"),
        ("a = { b = 1", 1, "inline table without a closing } on the same line: a = { b = 1"),
        (
            'a = "C:\\data"',
            1,
            'invalid escape sequence (single quotes keep backslashes as they are): a = "C:\\data"',
        ),
        ("a = 2023-02-30", 1, "invalid date: a = 2023-02-30"),
        ("a = '\0'", 1, "invalid character"),
        ("a = " + "[" * 5000, 1, "number too long, or lists nested too deeply"),
        ("a = " + "1" * 5000, 1, "number too long, or lists nested too deeply"),
        (".".join("a" * 5000) + " = 1", 1, "tables or lists nested more than 32 levels deep"),
    ],
)
def test_syntax_errors_are_readable(text: str, line: int, message: str) -> None:
    with pytest.raises(TOMLSyntaxError) as refused:
        load(text)
    assert (refused.value.line, str(refused.value)) == (line, message)
