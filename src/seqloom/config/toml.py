"""TOML with the line of every key, which tomllib does not report; readable syntax errors; keys and values as text."""

import re
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any

import tomli_w

KeyPath = tuple[str | int, ...]
"""Keys, and indices inside lists, from the root of a document."""

MAX_DEPTH = 32  # of nested tables and lists
_SPACE = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"""(?:"{0,2})'
    r"|'''.*?'''(?:'{0,2})"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'",
    re.DOTALL,
)
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_UNQUOTED = re.compile(r"""([\w.-]+) ?= ?([^\s"'\[\]{}#,][^"'\[\]{}#,]*?)(?: #.*)?""")
_SCALAR = re.compile(r"[^,\]}#\n]*")  # numbers, Booleans, dates with a space inside


_PLAIN = {  # how an error of tomllib begins → what it means
    "Invalid value": "invalid value",
    "Invalid statement|Invalid initial": "expected key = value, [table] or # comment",
    "Expected '='": "expected = after the key",
    "Expected newline": "expected the end of the line after the value",
    r"Expected '\]": "expected ] after the table name",
    "Cannot declare|Cannot redefine|Cannot mutate": "table defined twice",
    "Cannot overwrite|Duplicate": "key defined twice",
    r"Illegal character '\\n'|Unterminated|Expected": "unterminated string",
    "Illegal|Found invalid": "invalid character",
    "Unclosed array": "list without a closing ]",
    "Unclosed inline": "inline table without a closing } on the same line",
    "Unescaped|Escaped|Invalid hex": "invalid escape sequence (single quotes keep backslashes as they are)",
    "Invalid date": "invalid date",
}


class TOMLSyntaxError(ValueError):
    """A text that is not TOML; ``line`` counts from 1."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


def load(text: str) -> tuple[dict[str, Any], dict[KeyPath, int]]:
    """The values, and the line (from 1) of each table, key and list element."""
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _explain(str(error), text) from None
    except (ValueError, RecursionError):  # thousands of digits or brackets
        raise TOMLSyntaxError(1, "number too long, or lists nested too deeply") from None
    if _is_deep(values):
        raise TOMLSyntaxError(1, f"tables or lists nested more than {MAX_DEPTH} levels deep")
    return values, _Scanner(text).scan()


def _explain(message: str, text: str) -> TOMLSyntaxError:
    numbered = re.search(r"at line (\d+)", message)
    line = int(numbered[1]) if numbered else text.rstrip().count("\n") + 1
    plain = next((plain for pattern, plain in _PLAIN.items() if re.match(pattern, message)), "invalid TOML")
    quoted = " ".join(text.split("\n")[line - 1].split())
    if plain == "invalid value" and (pair := _UNQUOTED.fullmatch(quoted)):
        plain, quoted = _explain_value(*pair.groups())
    return TOMLSyntaxError(line, f"{plain}: {quoted[:60]}" if quoted and quoted.isprintable() else plain)


def _explain_value(key: str, value: str) -> tuple[str, str]:
    """What is wrong with a value without quotes, and the line as it should be."""
    if value.lower() in ("true", "false"):
        return "Booleans are lower case", f"{key} = {value.lower()}"
    try:
        return "invalid number", f"{key} = {literal(float(value))}"
    except ValueError:
        return "strings need quotes", f"{key} = {literal(value)}"


def _is_deep(values: Any) -> bool:
    level = [values]
    for _ in range(MAX_DEPTH):
        inner = (value.values() if isinstance(value, dict) else value for value in level)
        level = [value for values in inner for value in values if isinstance(value, dict | list)]
    return bool(level)


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.line = 1  # of ``counted``
        self.counted = 0
        self.lines: dict[KeyPath, int] = {}
        self.lengths: dict[KeyPath, int] = {}  # of arrays of tables, so far

    def scan(self) -> dict[KeyPath, int]:
        table: KeyPath = ()
        self.skip(_SPACE)
        while self.at < len(self.text):
            if self.take("[["):
                *outer, last = self.key()
                array = (*self.resolve(tuple(outer)), last)
                self.lines.setdefault(array, self.here())
                table = (*array, self.lengths.get(array, 0))
                self.lengths[array] = self.lengths.get(array, 0) + 1
                self.lines[table] = self.here()
                self.take("]]")
            elif self.take("["):
                table = self.resolve(self.key())
                self.lines[table] = self.here()
                self.take("]")
            else:
                self.pair(table)
            self.skip(_SPACE)
        return self.lines

    def resolve(self, key: KeyPath) -> KeyPath:
        """Inside an array of tables, a header refers to the last element."""
        path: KeyPath = ()
        for part in key:
            path = (*path, part)
            self.lines.setdefault(path, self.here())
            if path in self.lengths:
                path = (*path, self.lengths[path] - 1)
        return path

    def pair(self, table: KeyPath) -> None:
        path = table
        for part in self.key():
            path = (*path, part)
            self.lines.setdefault(path, self.here())
        self.take("=")
        self.value(path)

    def key(self) -> KeyPath:
        parts = []
        while True:
            self.skip(_SPACE)
            quoted = self.skip(_STRING)
            parts.append(tomllib.loads(f"key = {quoted}")["key"] if quoted else self.skip(_BARE))
            if not self.take("."):
                return tuple(parts)

    def value(self, path: KeyPath) -> None:
        if self.take("["):
            index = 0
            while not self.take("]"):
                self.skip(_SPACE)
                self.lines[(*path, index)] = self.here()
                self.value((*path, index))
                self.take(",")
                index += 1
        elif self.take("{"):
            while not self.take("}"):
                self.pair(path)
                self.take(",")
        elif not self.skip(_STRING):
            self.skip(_SCALAR)

    def skip(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.text, self.at)
        if not match:
            return ""
        self.at = match.end()
        return match[0]

    def take(self, symbol: str) -> bool:
        self.skip(_SPACE)
        taken = self.text.startswith(symbol, self.at)
        self.at += len(symbol) * taken
        return taken

    def here(self) -> int:
        self.line += self.text.count("\n", self.counted, self.at)
        self.counted = self.at
        return self.line


def key(name: str) -> str:
    """A key, quoted where TOML requires it."""
    return tomli_w.dumps({name: 0}).removesuffix(" = 0\n")


def dotted(path: Iterable[str | int]) -> str:
    """A path of keys and list indices, such as ``task.layers[2].hidden``."""
    steps = [f"[{step}]" if isinstance(step, int) else f".{key(step)}" for step in path]
    return "".join(steps).removeprefix(".")


def literal(value: Any) -> str:
    """A value on one line."""
    if isinstance(value, Mapping):
        inner = ", ".join(f"{key(name)} = {literal(item)}" for name, item in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(literal, value))}]"
    return tomli_w.dumps({"x": value}).removeprefix("x = ").removesuffix("\n")


def one_of(values: Iterable[Any]) -> str:
    """``one of: "adam", "sgd"``, or the only value."""
    words = [literal(value) for value in values]
    return words[0] if len(words) == 1 else f"one of: {', '.join(words)}"
