"""The files of an exported page, without a browser."""

import re

from seqloom.onnx.page import SHARED, SHARED_FILES, STATIC


def test_modules_import_only_what_a_page_has() -> None:
    """Some are those of the studio, which may get further imports there."""
    files = {path.name: path for path in (*STATIC.iterdir(), *(SHARED / name for name in SHARED_FILES))}
    imports = {
        (name, module)
        for name, path in files.items()
        if path.suffix == ".js"
        for module in re.findall(r'(?:from|import\() ?"\./([^"]+)"', path.read_text(encoding="utf-8"))
    }
    assert ("answer.js", "dom.js") in imports
    assert {(name, module) for name, module in imports if module not in files and "/" not in module} == set()
