"""The prose of a manual."""

import re
from collections.abc import Iterator


def paragraphs(text: str) -> Iterator[str]:
    """Each paragraph on one line; headings, tables, grammar and code are left out."""
    for block in re.split(r"\n\s*\n", text):
        first, *others = block.strip("\n").split("\n")
        even = len({len(line) - len(line.lstrip()) for line in others}) <= 1
        line = re.sub(r"^(\*|\d+\.) +", "", " ".join(part.strip() for part in (first, *others)))
        sentence = re.fullmatch(r"[A-Z].*[.:;!?)]", line) and line.count(" ") >= 5
        if even and sentence and not re.search(r"::=|>>>|[^.] {2}", line):
            yield line
