"""Builds the documentation site in build/docs/html; see scripts/docs."""

import argparse
import shutil
import sys
from pathlib import Path

from docs.site import gallery, links, pages, reference
from sphinx.cmd.build import build_main

ROOT = Path(__file__).parent.parent.parent
BUILD = ROOT / "build" / "docs"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="scripts/docs", description="Build the documentation site in build/docs/html."
    )
    parser.add_argument("--quick", action="store_true", help="train the models of the gallery for a few seconds only")
    quick = parser.parse_args().quick
    source, html = BUILD / "source", BUILD / "html"
    for folder in (source, html):
        shutil.rmtree(folder, ignore_errors=True)
    pages.stage(source)
    reference.write(source)
    gallery.write(source, work=BUILD / ("quick-models" if quick else "models"), quick=quick)
    options = ["--quiet", "--fail-on-warning", "--keep-going", "--conf-dir", str(Path(__file__).parent)]
    if build_main([*options, "--doctree-dir", str(BUILD / "doctrees"), str(source), str(html)]):
        return 1
    broken = links.broken(html)
    for page, target in broken:
        print(f"{page}: broken link {target}", file=sys.stderr)
    if not broken:
        print(f"Open {html / 'index.html'}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
