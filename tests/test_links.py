"""Links in Markdown lead somewhere: to a file of this repository, and to a heading that it has."""

import re
from collections import Counter
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / ".github").rglob("*.md")])
SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:")


def prose(text: str) -> str:
    """Markdown without code, in which brackets are no links and hashes no headings."""
    text = re.sub(r"^(`{3,}|~{3,}).*?^\1$", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"(?<=\n\n)(?: {4}.*\n+)+", "", text)
    return re.sub(r"(`+)(?!`).+?(?<!`)\1(?!`)", lambda code: re.sub(r"[\[\]()<>#]", " ", code[0]), text)


def links(text: str) -> list[str]:
    """The targets of inline links, images, reference definitions and HTML."""
    text = prose(text)
    inline = re.findall(r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)", text)
    definitions = re.findall(r"^ {0,3}\[[^\]]+\]:\s*<?(\S+?)>?(?:\s|$)", text, re.MULTILINE)
    attributes = re.findall(r"<(?:a|img)\s[^>]*?(?:href|src)=\"([^\"]+)\"", text)
    return [*inline, *definitions, *attributes]


def anchors(text: str) -> set[str]:
    """The anchors of the headings, as GitHub and MyST make them: words in lowercase, joined by hyphens."""
    seen: Counter[str] = Counter()
    result = set()
    text = re.sub(r"^(`{3,}|~{3,}).*?^\1$", "", text, flags=re.MULTILINE | re.DOTALL)
    for heading in re.findall(r"^#{1,6} +(.+?) *#*$", text, re.MULTILINE):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        slug = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        result.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return result


def broken(page: Path, text: str) -> list[str]:
    """The links of a page that lead nowhere."""
    wrong = []
    for link in links(text):
        if SCHEME.match(link):
            continue
        name, _, anchor = unquote(link).partition("#")
        target = (page.parent / name).resolve() if name else page
        content = text if target == page else target.read_text() if target.suffix == ".md" and target.is_file() else ""
        exists = target.exists() and target.is_relative_to(ROOT)
        if (name and not exists) or (anchor and anchor not in anchors(content)):
            wrong.append(link)
    return wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert broken(page, page.read_text()) == []


def test_broken_links_are_seen() -> None:
    text = """# A `title`, of (two) parts
## Again
## Again
[a](README.md) [b](missing.md) [c](#a-title-of-two-parts) [d](#again-1) [e](#again-2) [f](README.md#no-such-heading)
[g](https://example.org/x) ![h](missing.png "a title") `[i](code.md)` <a href="gone.html">j</a> [k](../outside.md)

    [l](indented.md)

```
[m](fenced.md)
```
"""
    assert broken(ROOT / "page.md", text) == [
        *("missing.md", "#again-2", "README.md#no-such-heading", "missing.png", "../outside.md", "gone.html"),
    ]
