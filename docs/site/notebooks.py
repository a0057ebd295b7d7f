"""The notebooks of docs/notebooks as pages of the site: text, code and the outputs that are stored in them."""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
NOTEBOOKS = ROOT / "docs" / "notebooks"


def names() -> list[str]:
    """The names of the notebooks, which are those of their pages."""
    return sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb"))


def cells(name: str) -> list[dict[str, Any]]:
    """The cells of a notebook, the source of each as one text."""
    content = json.loads((NOTEBOOKS / f"{name}.ipynb").read_text(encoding="utf-8"))
    return [{**cell, "source": "".join(cell["source"])} for cell in content["cells"]]


def page(name: str, pictures: Path, *, adapt: Callable[[str], str] = str) -> str:
    """A notebook as Markdown, its text adapted; its pictures are written into a folder beside the page."""
    parts = []
    for number, cell in enumerate(cells(name)):
        if cell["cell_type"] == "markdown":
            parts.append(adapt(cell["source"]))
            continue
        parts.append(f"```python\n{cell['source']}\n```")
        for index, output in enumerate(cell["outputs"]):
            parts.append(_output(output, pictures / f"{name}-{number}-{index}.png"))
    source = f"docs/notebooks/{name}.ipynb"
    return "\n\n".join([*filter(None, parts), f"This page is the notebook `{source}`.", ""])


def _output(output: dict[str, Any], picture: Path) -> str:
    data = output.get("data", {})
    if "image/png" in data:
        picture.parent.mkdir(parents=True, exist_ok=True)
        picture.write_bytes(base64.b64decode("".join(data["image/png"])))
        return f"![Output of the cell]({picture.name})"
    if "text/html" in data:
        lines = "".join(data["text/html"]).splitlines()
        return "\n".join(['<div class="notebook-output">', *(line.strip() for line in lines if line.strip()), "</div>"])
    text = "".join(output.get("text") or data.get("text/plain", "")).rstrip()
    return f"```text\n{text}\n```" if text else ""
