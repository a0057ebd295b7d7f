"""The notebooks of docs/notebooks run, and what they show is stored in them."""

import ast
import re
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest
from docs.site import notebooks

NAMES = notebooks.names()


def run_cell(code: str, namespace: dict[str, Any]) -> object:
    """Execute a cell; the value of its last expression, as a notebook shows it."""
    tree = ast.parse(code)
    *statements, last = tree.body
    if not isinstance(last, ast.Expr):
        statements.append(last)
    exec(compile(ast.Module(statements, []), "<cell>", "exec"), namespace)  # noqa: S102
    if not isinstance(last, ast.Expr):
        return None
    return eval(compile(ast.Expression(last.value), "<cell>", "eval"), namespace)  # noqa: S307


@pytest.mark.parametrize("name", NAMES)
def test_notebooks_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(mpl.rcParams, "backend", "Agg")
    namespace: dict[str, Any] = {"__name__": name}
    for cell in notebooks.cells(name):
        if cell["cell_type"] != "code":
            continue
        value = run_cell(cell["source"], namespace)
        stored = [output for output in cell["outputs"] if output["output_type"] == "execute_result"]
        assert bool(stored) is (value is not None), cell["source"]
        if hasattr(value, "_repr_html_"):
            assert value._repr_html_()
        pictures = [output for output in cell["outputs"] if "image/png" in output.get("data", {})]
        assert bool(pictures) is bool(plt.get_fignums()), cell["source"]
        plt.close("all")


@pytest.mark.parametrize("name", NAMES)
def test_stored_outputs_have_no_errors_and_name_no_machine(name: str) -> None:
    for cell in notebooks.cells(name):
        for output in cell.get("outputs", []):
            assert output["output_type"] in ("execute_result", "display_data"), output
        assert not re.search(r"/(tmp|home|root|work|Users)/", str(cell))


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_is_a_page(name: str, tmp_path: Path) -> None:
    page = notebooks.page(name, tmp_path)
    assert page.startswith("# ")
    assert page.count("```python") == sum(cell["cell_type"] == "code" for cell in notebooks.cells(name))
    for picture in re.findall(r"!\[.*?\]\((.*?)\)", page):
        assert (tmp_path / picture).read_bytes().startswith(b"\x89PNG")
