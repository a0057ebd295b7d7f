"""Lines of Python, each token with its role."""

import builtins
import importlib.abc
import importlib.util
import io
import keyword
import re
import tokenize
from collections.abc import Iterator, Sequence

from seqloom.data.readers.text_files import DataError

SITE = "copyright credits exit help license quit"  # there in an interactive Python only
BUILTINS = {name for name in vars(builtins) if not name.startswith("_")} - set(SITE.split())
ASSIGNMENTS = {"=", "+=", "-=", "*=", "/=", "//=", "%=", "|=", "&=", "^=", ">>=", "<<=", "**=", "@=", ":="}

Line = Sequence[tokenize.TokenInfo]


def spread(lines: Sequence[Line], most: int) -> Sequence[Line]:
    """Some of the lines, as far from each other as possible."""
    return lines[:: -(-len(lines) // most) or 1]


def statements(module: str) -> Iterator[Line]:
    """The statements of a module as tokens; very short ones have nothing to learn."""
    spec = importlib.util.find_spec(module)
    source = spec and isinstance(spec.loader, importlib.abc.InspectLoader) and spec.loader.get_source(module)
    if not source:
        raise DataError(module, "this Python comes without the source of its standard library")
    line: list[tokenize.TokenInfo] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NEWLINE:
            if 2 <= len(line) <= 60:
                yield line
            line = []
        elif token.string.strip() and (line or token.type != tokenize.COMMENT):
            line.append(token)


def tagged(line: Line) -> str:
    return "".join(f"{visible(token.string)}\t{label}\n" for token, label in zip(line, labels(line), strict=True))


def visible(token: str) -> str:
    """A token without blanks, and not longer than anyone would read."""
    text = re.sub(r"\s+", "␣", token)
    return text if len(text) <= 24 else f"{text[:23]}…"


def labels(line: Line) -> list[str]:
    """What each token of a statement is; that of a name is told by its neighbours and by what encloses it."""
    kinds = {tokenize.STRING: "STRING", tokenize.NUMBER: "NUMBER", tokenize.COMMENT: "COMMENT", tokenize.OP: "OPERATOR"}
    words = ["", *(token.string for token in line), ""]
    first = words[2] if words[1] == "async" else words[1]
    assigned = last_assignment(words)
    open_brackets: list[str] = []
    found = []
    for index, token in enumerate(line, start=1):
        word = token.string
        if word in "([{":
            before = line[index - 2] if index > 1 else None
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
            found.append(role(words, index, enclosing=enclosing, assigned=index < assigned))
        else:
            found.append(kinds.get(token.type, "STRING"))
    return found


def last_assignment(words: Sequence[str]) -> int:
    """Where the last assignment outside of brackets stands; 0 if there is none."""
    depth = last = 0
    for index, word in enumerate(words):
        depth += (word in ("(", "[", "{")) - (word in (")", "]", "}"))
        if not depth and word in ASSIGNMENTS and "lambda" not in words[:index]:
            last = index
    return last


def role(words: Sequence[str], index: int, *, enclosing: str, assigned: bool) -> str:
    """The label of a name."""
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
