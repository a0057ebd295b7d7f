"""TOML with the line of every key and errors in plain words: tomllib tells no positions."""

import re
import tomllib
from typing import Any

Steps = tuple[str | int, ...]
"""Keys and, inside lists, indices from the root of a document."""

DEEPEST = 32  # tables and lists inside each other
_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"""(?:"{0,2})'
    r"|'''.*?'''(?:'{0,2})"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'",
    re.DOTALL,
)
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_SCALAR = re.compile(r"[^,\]}#\n]*")  # numbers, Booleans, dates with a blank inside


_PLAIN = {  # what tomllib says → what it means
    "Invalid value": 'no value of TOML (text stands in quotes: cell = "lstm")',
    "Invalid statement|Invalid initial": "wanted key = value, [table] or # comment",
    "Expected '='": "wanted = after the key",
    "Expected newline": "wanted the end of the line after the value",
    r"Expected '\]": "wanted ] at the end of the table's name",
    "Cannot declare|Cannot redefine|Cannot mutate": "this table is already there",
    "Cannot overwrite|Duplicate": "this key is already there",
    r"Illegal character '\\n'|Unterminated|Expected": "text without its closing quote",
    "Illegal|Found invalid": "a character that TOML does not allow there",
    "Unclosed array": "a list without its closing ]",
    "Unclosed inline": "a table in braces without its closing } on the same line",
    "Unescaped|Escaped|Invalid hex": "a backslash that means nothing (between single quotes it is a plain character)",
    "Invalid date": "a date that does not exist",
}


class TOMLSyntaxError(ValueError):
    """A text that cannot be read; ``line`` counts from 1."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


def load(text: str) -> tuple[dict[str, Any], dict[Steps, int]]:
    """The values, and the line (from 1) of each table, key and list element."""
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _explain(str(error), text) from None
    except (ValueError, RecursionError):  # thousands of digits or brackets
        raise TOMLSyntaxError(1, "a number is too long, or lists are too deep inside each other") from None
    if _deep(values):
        raise TOMLSyntaxError(1, f"more than {DEEPEST} tables or lists are inside each other")
    return values, _Scanner(text).scan()


def _explain(message: str, text: str) -> TOMLSyntaxError:
    numbered = re.search(r"at line (\d+)", message)
    line = int(numbered[1]) if numbered else text.rstrip().count("\n") + 1
    plain = next((plain for pattern, plain in _PLAIN.items() if re.match(pattern, message)), "not TOML")
    found = " ".join(text.split("\n")[line - 1].split())
    return TOMLSyntaxError(line, f"{plain}, found: {found[:60]}" if found and found.isprintable() else plain)


def _deep(values: Any) -> bool:
    level = [values]
    for _ in range(DEEPEST):
        inner = (value.values() if isinstance(value, dict) else value for value in level)
        level = [value for values in inner for value in values if isinstance(value, dict | list)]
    return bool(level)


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.line = 1  # of ``counted``
        self.counted = 0
        self.found: dict[Steps, int] = {}
        self.lengths: dict[Steps, int] = {}  # of arrays of tables, so far

    def scan(self) -> dict[Steps, int]:
        table: Steps = ()
        self.skip(_BLANK)
        while self.at < len(self.text):
            if self.take("[["):
                *outer, last = self.key()
                array = (*self.resolve(tuple(outer)), last)
                self.found.setdefault(array, self.here())
                table = (*array, self.lengths.get(array, 0))
                self.lengths[array] = self.lengths.get(array, 0) + 1
                self.found[table] = self.here()
                self.take("]]")
            elif self.take("["):
                table = self.resolve(self.key())
                self.found[table] = self.here()
                self.take("]")
            else:
                self.pair(table)
            self.skip(_BLANK)
        return self.found

    def resolve(self, key: Steps) -> Steps:
        """Inside an array of tables a header speaks of the newest element."""
        path: Steps = ()
        for part in key:
            path = (*path, part)
            self.found.setdefault(path, self.here())
            if path in self.lengths:
                path = (*path, self.lengths[path] - 1)
        return path

    def pair(self, table: Steps) -> None:
        path = table
        for part in self.key():
            path = (*path, part)
            self.found.setdefault(path, self.here())
        self.take("=")
        self.value(path)

    def key(self) -> Steps:
        parts = []
        while True:
            self.skip(_BLANK)
            quoted = self.skip(_STRING)
            parts.append(tomllib.loads(f"key = {quoted}")["key"] if quoted else self.skip(_BARE))
            if not self.take("."):
                return tuple(parts)

    def value(self, path: Steps) -> None:
        if self.take("["):
            index = 0
            while not self.take("]"):
                self.skip(_BLANK)
                self.found[(*path, index)] = self.here()
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
        self.skip(_BLANK)
        taken = self.text.startswith(symbol, self.at)
        self.at += len(symbol) * taken
        return taken

    def here(self) -> int:
        self.line += self.text.count("\n", self.counted, self.at)
        self.counted = self.at
        return self.line
