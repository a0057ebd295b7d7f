"""The documentation site: its parts that need no site generator."""

import re
import shlex
from pathlib import Path

import pytest
from docs.site import links, pages
from docs.site.gallery import PICTURES, Picture, card, page
from tests.test_links import anchors
from typer.main import get_command

from seqloom import tasks
from seqloom.cli.main import app

ROOT = Path(__file__).parent.parent
SITE = ROOT / "docs" / "site"
GENERATED = {"commands", "configuration", "examples", "api/index"}
COMMANDS = getattr(get_command(app), "commands", {})


def test_the_navigation_has_every_page_once() -> None:
    named = [name for entries in pages.NAVIGATION.values() for name in entries]
    assert sorted(named) == sorted({Path(name).stem for name in pages.page_names().values()} | GENERATED)


def test_readme_lists_the_pages_of_the_navigation() -> None:
    listed = set(
        re.findall(r"\]\(docs/(?:notebooks/)?(\w+)\.(?:md|ipynb)\)", (ROOT / "README.md").read_text(encoding="utf-8"))
    )
    docs = {Path(name).stem for name in pages.page_names() if name.startswith("docs/")}
    assert docs <= listed


def test_links_become_links_of_the_site(tmp_path: Path) -> None:
    text = (
        "[a](data.md#text) [b](../ARCHITECTURE.md) [c](../src/seqloom/examples/tag.toml) [d](https://example.org) "
        "[e](#here) ![f](lexicon_search.svg) [g](../src/seqloom/run.py) [h](../README.md)"
    )
    assert pages.adapt_links(text, "docs/tag.md", tmp_path) == (
        "[a](data.md#text) [b](architecture.md) [c](examples.md#tag) [d](https://example.org) "
        "[e](#here) ![f](lexicon_search.svg) [g](files/src/seqloom/run.py) [h](get_started.md)"
    )
    assert (tmp_path / "lexicon_search.svg").is_file()
    assert (tmp_path / "files/src/seqloom/run.py").is_file()


def test_all_pages_are_staged_with_the_notebooks(tmp_path: Path) -> None:
    source = tmp_path / "source"
    pages.stage(source)
    assert {path.name for path in source.glob("*.md")} == {*pages.page_names().values(), "index.md"}
    notebook = (source / "own_cell.md").read_text(encoding="utf-8")
    assert "(compare.md)" in notebook
    pictures = re.findall(r"!\[.*?\]\((.*?)\)", notebook)
    assert pictures
    assert all((source / picture).is_file() for picture in pictures)


def test_get_started_is_the_practical_part_of_readme() -> None:
    readme = "# Name\n\nTry it.\n\n## Train\nfirst\n## Why Seqloom\nbest\n## Documentation\nlist\n## Install\nlast\n"
    assert pages.get_started(readme) == "# Get started\n\nTry it.\n\n## Train\nfirst\n## Install\nlast\n"


def test_the_landing_page_takes_code_and_reasons_from_readme() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    page = pages.with_readme((SITE / "index.md").read_text(encoding="utf-8"), readme)
    assert "<!--" not in page
    assert "class Forgetful(Cell):" in page
    assert pages.sections(readme)["Why Seqloom"] in page


def test_the_landing_page_shows_tested_commands_and_pictures() -> None:
    text = (SITE / "index.md").read_text(encoding="utf-8")
    shown = re.findall(r"^(seqloom .+?)(?:  .*)?$", text, re.MULTILINE)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert shown
    assert [command for command in shown if command not in readme] == []
    assert set(re.findall(r"gallery/(\w+)\.\*", text)) <= {picture.name for picture in PICTURES}
    assert set(re.findall(r"^:link: (\w+)$", text, re.MULTILINE)) >= set(tasks.names())


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
def test_the_gallery_shows_commands_and_pages_that_exist(picture: Picture) -> None:
    page, _, anchor = picture.page.partition("#")
    assert picture.task in (*tasks.names(), "")
    assert not anchor or anchor in anchors((ROOT / "docs" / page).read_text(encoding="utf-8"))
    command = (shlex.split(picture.explain) or ["", "explain"])[1]
    known = {option for parameter in COMMANDS[command].params for option in parameter.opts}
    assert {word for word in shlex.split(picture.explain) if word.startswith("--")} <= known
    shown = card(picture, f"gallery/{picture.name}.svg")
    assert f"    {picture.demo}\n" in shown or not picture.demo
    assert f"    {picture.explain}\n" in shown or not picture.explain


def test_the_page_of_the_gallery_is_up_to_date_and_its_pictures_are_small() -> None:
    """Run ``python -m docs.site.gallery FOLDER`` after a change."""
    assert (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8") == page()
    pictures = {path.stem: path.stat().st_size for path in (ROOT / "docs" / "gallery").iterdir()}
    assert set(pictures) == {picture.name for picture in PICTURES}
    assert max(pictures.values()) <= 60_000


def test_broken_links_of_the_site_are_seen(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "index.html").write_text(
        '<h1 id="top"></h1><a href="deep/page.html#part">a</a><a href="#top">b</a><a href="https://example.org">c</a>'
        '<a href="deep/page.html#no">d</a><img src="missing.png">'
    )
    text = '<p id="part"></p><a href="../index.html#top">e</a><a href="gone.html">f</a>'
    (tmp_path / "deep" / "page.html").write_text(text)
    assert sorted(links.broken(tmp_path)) == [
        ("deep/page.html", "gone.html"),
        ("index.html", "deep/page.html#no"),
        ("index.html", "missing.png"),
    ]
