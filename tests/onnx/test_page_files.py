"""The files of an exported page, without a browser."""

import re

from seqloom.onnx.page import page_files


def test_modules_import_only_what_a_page_has() -> None:
    """Some are those of the studio, which may get further imports there; but not the studio as a whole."""
    files = {path.name: path for path in page_files()}
    assert all(path.is_file() for path in files.values())
    assert "app.js" not in files
    imports = {
        (name, module)
        for name, path in files.items()
        if path.suffix == ".js"
        for module in re.findall(r'(?:from|import\() ?"\./([^"]+)"', path.read_text(encoding="utf-8"))
    }
    assert ("answer.js", "dom.js") in imports
    assert {(name, module) for name, module in imports if module not in files and "/" not in module} == set()
