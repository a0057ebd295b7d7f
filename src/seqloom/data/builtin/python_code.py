"""Statements of Python code with the syntactic role of each token: generated data for tagging."""

import builtins
import importlib.abc
import importlib.util
import io
import keyword
import re
import tokenize
from collections.abc import Iterator, Sequence

from seqloom.data.readers.text_files import DataError

SITE = "copyright credits exit help license quit"  # only in an interactive session
BUILTINS = {name for name in vars(builtins) if not name.startswith("_")} - set(SITE.split())
ASSIGNMENTS = {"=", "+=", "-=", "*=", "/=", "//=", "%=", "|=", "&=", "^=", ">>=", "<<=", "**=", "@=", ":="}

Statement = Sequence[tokenize.TokenInfo]


def evenly_spaced(items: Sequence[Statement], limit: int) -> Sequence[Statement]:
    """At most ``limit`` statements at equal distances."""
    return items[:: -(-len(items) // limit) or 1]


def statements(module: str) -> Iterator[Statement]:
    """The statements of a module as tokens, without very short and very long ones."""
    spec = importlib.util.find_spec(module)
    source = spec and isinstance(spec.loader, importlib.abc.InspectLoader) and spec.loader.get_source(module)
    if not source:
        raise DataError(module, "this Python installation lacks the source code of its standard library")
    statement: list[tokenize.TokenInfo] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NEWLINE:
            if 2 <= len(statement) <= 60:
                yield statement
            statement = []
        elif token.string.strip() and (statement or token.type != tokenize.COMMENT):
            statement.append(token)


def to_conll(statement: Statement) -> str:
    return "".join(
        f"{visible(token.string)}\t{label}\n" for token, label in zip(statement, labels(statement), strict=True)
    )


def visible(token: str) -> str:
    """A token without whitespace, shortened to 24 characters."""
    text = re.sub(r"\s+", "␣", token)
    return text if len(text) <= 24 else f"{text[:23]}…"


def labels(statement: Statement) -> list[str]:
    """The role of each token; that of a name depends on its neighbours and the enclosing brackets."""
    kinds = {tokenize.STRING: "STRING", tokenize.NUMBER: "NUMBER", tokenize.COMMENT: "COMMENT", tokenize.OP: "OPERATOR"}
    words = ["", *(token.string for token in statement), ""]
    first = words[2] if words[1] == "async" else words[1]
    assigned = last_assignment(words)
    open_brackets: list[str] = []
    roles = []
    for index, token in enumerate(statement, start=1):
        word = token.string
        if word in "([{":
            before = statement[index - 2] if index > 1 else None
            called = (
                word == "("
                and before is not None
                and (before.string in ")]" or (before.type == tokenize.NAME and not keyword.iskeyword(before.string)))
            )
            defined = called and not open_brackets and first == "def"
            open_brackets.append("definition" if defined else "call" if called else "group")
        elif word in ")]}" and open_brackets:
            open_brackets.pop()
        enclosing = open_brackets[-1] if open_brackets else ""
        if token.type == tokenize.NAME:
            roles.append(role(words, index, enclosing=enclosing, assigned=index < assigned))
        else:
            roles.append(kinds.get(token.type, "STRING"))
    return roles


def last_assignment(words: Sequence[str]) -> int:
    """The index of the last assignment outside of brackets; 0 if there is none."""
    depth = last = 0
    for index, word in enumerate(words):
        depth += (word in ("(", "[", "{")) - (word in (")", "]", "}"))
        if not depth and word in ASSIGNMENTS and "lambda" not in words[:index]:
            last = index
    return last


def role(words: Sequence[str], index: int, *, enclosing: str, assigned: bool) -> str:
    """The role of a name."""
    before, word, after = words[index - 1 : index + 2]
    earlier = words[1:index]
    if keyword.iskeyword(word):
        return "CONSTANT" if word in ("True", "False", "None") else "KEYWORD"
    definitions = {"def": "FUNCTION", "class": "CLASS", "@": "DECORATOR", "as": "TARGET", "lambda": "PARAMETER"}
    if before in definitions and (before != "@" or index == 2):
        return definitions[before]
    if words[1] in ("import", "from"):
        return "IMPORTED" if words[1] == "from" and "import" in earlier else "MODULE"
    if before == ".":
        return "METHOD" if after == "(" else "ATTRIBUTE"
    if enclosing == "definition" and before in ("(", ",", "*", "**"):
        return "PARAMETER"
    if enclosing == "call" and after == "=":
        return "ARGUMENT"
    if "for" in earlier and "in" not in earlier[::-1][: earlier[::-1].index("for")]:
        return "TARGET"
    if word in BUILTINS:
        return "BUILTIN"
    if after == "(":
        return "CLASS" if word.lstrip("_")[:1].isupper() else "FUNCTION"
    return "TARGET" if assigned and enclosing != "call" and after not in (".", "[") else "NAME"
