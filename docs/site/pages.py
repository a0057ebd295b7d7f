"""The Markdown pages of the repository, copied into the source of the site with their links adapted."""

import posixpath
import re
import shutil
from collections.abc import Mapping
from functools import partial
from pathlib import Path, PurePosixPath

from docs.site import notebooks

ROOT = Path(__file__).parent.parent.parent

NAVIGATION: Mapping[str, Mapping[str, str]] = {
    "": {
        "get_started": "Get started",
        "gallery": "Gallery",
    },
    "Tasks": {
        "classify": "Classify",
        "tag": "Tag",
        "regression": "Regression",
        "forecast": "Forecast",
        "language_model": "Language model",
        "translate": "Translate",
        "transcribe": "Transcribe",
        "caption": "Caption",
        "handwriting": "Handwriting",
        "music": "Music",
        "embed": "Embed",
        "uses": "What else you can do",
    },
    "How to": {
        "data": "Prepare data",
        "training": "Train and resume",
        "pretrained": "Use pretrained vectors",
        "explain": "Explain an answer",
        "doctor": "Find out why it does not learn",
        "compare": "Compare models",
        "sweep": "Find good settings",
        "studio": "Look at runs in a browser",
        "serve": "Serve a model",
        "custom_cells": "Write a cell",
        "quantize": "Quantize to int8",
        "export": "Export to ONNX",
        "compile": "Compile for C or WebAssembly",
        "python": "Use Python and notebooks",
    },
    "Notebooks": {
        "classify_dataframe": "Classify a DataFrame",
        "forecast_csv": "Forecast a CSV file",
        "own_cell": "Write your own cell",
    },
    "Reference": {
        "commands": "Commands",
        "configuration": "Configuration",
        "examples": "Example configurations",
        "api/index": "Python",
        "glossary": "Glossary",
    },
    "Background": {
        "recurrent": "Recurrent layers",
        "attention": "Attention, Transformers, search",
        "lexicon_search": "Lexicon search",
    },
    "Evidence": {
        "lab": "Claims put to the test",
        "results": "Results on real data",
        "benchmarks": "Benchmarks",
        "promises": "Reliability",
    },
    "Development": {
        "architecture": "Architecture",
        "decisions": "Design decisions",
        "contributing": "Contributing",
        "changelog": "Changelog",
        "security": "Security",
    },
}
"""The pages in the order of the navigation bar, by section: the name of each page and its title there."""

PARTS = {"results_remarks.md"}
"""Pages that are part of another one."""

OUTSIDE = {
    "README.md": "get_started.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
}
"""Pages outside docs, and what they are called on the site."""

EXAMPLES = PurePosixPath("src/seqloom/examples")


def page_names() -> dict[str, str]:
    """All pages: path in the repository, path on the site."""
    docs = (path.name for path in sorted((ROOT / "docs").glob("*.md")))
    pages = {f"docs/{name}": name for name in docs if name not in PARTS}
    return pages | {f"docs/notebooks/{name}.ipynb": f"{name}.md" for name in notebooks.names()} | OUTSIDE


def stage(source: Path) -> None:
    """Write pages and pictures into the source folder of the site."""
    source.mkdir(parents=True)
    for name, target in page_names().items():
        if name.endswith(".ipynb"):
            continue
        text = (ROOT / name).read_text(encoding="utf-8")
        if name == "README.md":
            text = get_started(text)
        (source / target).write_text(adapt_links(text, name, source), encoding="utf-8")
    for name in notebooks.names():
        adapt = partial(adapt_links, page=f"docs/notebooks/{name}.ipynb", source=source)
        text = notebooks.page(name, source, adapt=adapt)
        (source / f"{name}.md").write_text(text, encoding="utf-8")
    index = adapt_links((ROOT / "docs" / "site" / "index.md").read_text(encoding="utf-8"), "docs/site/index.md", source)
    readme = adapt_links((ROOT / "README.md").read_text(encoding="utf-8"), "README.md", source)
    (source / "index.md").write_text(f"{with_readme(index, readme)}\n{toctrees()}", encoding="utf-8")


def sections(text: str) -> dict[str, str]:
    """The sections of a page by their heading; what comes before the first one is called ""."""
    before, *parts = re.split(r"^## (.*)\n", text, flags=re.MULTILINE)
    return {"": before} | dict(zip(parts[::2], parts[1::2], strict=True))


def get_started(readme: str) -> str:
    """README as the page that follows the landing page, without what the landing page and the navigation show."""
    parts = sections(readme)
    kept = [f"## {name}\n{text}" for name, text in parts.items() if name not in {"", "Why Seqloom", "Documentation"}]
    return "".join([re.sub(r"^# .*", "# Get started", parts[""]), *kept])


def with_readme(index: str, readme: str) -> str:
    """The landing page with what it takes from README: ``<!-- section NAME -->`` and ``<!-- python NUMBER -->``."""
    code = re.findall(r"^```python\n.*?^```\n", readme, re.MULTILINE | re.DOTALL)
    index = re.sub(r"^<!-- python (\d+) -->\n", lambda match: code[int(match[1]) - 1], index, flags=re.MULTILINE)
    return re.sub(r"^<!-- section (.*) -->\n", lambda match: sections(readme)[match[1]], index, flags=re.MULTILINE)


def toctrees() -> str:
    """The navigation, as directives at the end of the landing page."""
    blocks = []
    for caption, entries in NAVIGATION.items():
        lines = [f":caption: {caption}"] if caption else []
        lines += [":hidden:", "", *(f"{title} <{name}>" for name, title in entries.items())]
        blocks.append("\n".join(["```{toctree}", *lines, "```"]))
    return "\n\n".join([*blocks, ""])


def adapt_links(text: str, page: str, source: Path) -> str:
    """Links of a page of the repository as links of the site; files that are no pages are copied."""

    def adapted(match: re.Match[str]) -> str:
        name, hash_sign, anchor = match[1].partition("#")
        if not name or re.match(r"[a-z]+:", name):
            return match[0]
        path = PurePosixPath(posixpath.normpath(posixpath.join(posixpath.dirname(page), name)))
        if path == EXAMPLES:
            return "](examples.md)"
        if path.parent == EXAMPLES:
            return f"](examples.md#{path.stem})"
        if target := page_names().get(str(path)):
            return f"]({target}{hash_sign}{anchor})"
        target = str(path.relative_to("docs")) if path.parts[0] == "docs" else f"files/{path}"
        (source / target).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, source / target)
        return f"]({target})"

    return re.sub(r"\]\(([^)\s]+)\)", adapted, text)
