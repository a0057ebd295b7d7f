"""A web page for one model: a folder that runs it in a browser, without a server of its own and without a network."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from seqloom import files
from seqloom.export_check import ExportCheck, ExportError
from seqloom.onnx import exported
from seqloom.onnx.exported import OnnxModel

STATIC = Path(__file__).parent / "static"
SHARED = Path(__file__).parent.parent / "studio" / "static"  # the look of the studio
SHARED_FILES = ("style.css", "icon.svg")
IMPORT = re.compile(r'(?:from|import\() ?"\./([^"/]+)"')
RUNTIME_FOLDER = "onnxruntime-web"
RUNTIME_FILES = ("ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm")
RUNTIME_VERSION = "1.30.0"  # that pages are tested with
NPM_SECONDS = 20
NO_PAGE = {
    "masked": "masked language models",
    "both_directions": "language models of both directions",
    "music": "models of music",
    "strokes": "models of pen strokes",
}


def write_page(
    model: OnnxModel,
    folder: Path,
    batches: Iterable[Sequence[Any]],
    *,
    metadata: Mapping[str, str],
    onnxruntime_web: Path | None,  # the folder of onnxruntime-web; None: the page says how to get it
    drawing: Mapping[str, Any] | None = None,  # how drawings resemble the examples of the model, for the drawing pad
) -> ExportCheck:
    """Write the files of a page if its model gives the answers of the original; ExportError if not."""
    kind = model.description["output"]["kind"]
    if kind in NO_PAGE:
        raise ExportError(f"there is no page for {NO_PAGE[kind]}: export it as a file, such as model.onnx")
    if model.description["input"].get("features"):
        raise ExportError("there is no page for a tagger with task.feature_columns: export it as a file")
    if model.description["input"].get("covariates"):
        raise ExportError(
            "there is no page for a forecaster that knows dates or columns in advance: export it as a file"
        )
    if "lm" in model.parts:
        raise ExportError(
            "there is no page for a search with a neural language model: take an n-gram model, or export it as a file"
        )
    result = exported.write(model, folder / "model.onnx", batches, metadata=metadata, parts=True)
    names = {"model": "model.onnx"} | {part: f"model.{part}.onnx" for part in model.parts}
    description = {
        "format": exported.FORMAT,
        **model.description,
        "name": metadata.get("name", "model"),
        "files": names,
        "drawing": dict(drawing or {}),
        "onnxruntime_web": RUNTIME_VERSION,
    }
    files.write(folder / "model.json", json.dumps(description, ensure_ascii=False))
    for path in page_files():
        files.write(folder / path.name, path.read_bytes())
    if onnxruntime_web is not None:
        for name in RUNTIME_FILES:
            files.write(folder / RUNTIME_FOLDER / name, (onnxruntime_web / name).read_bytes())
    return result


def page_files() -> list[Path]:
    """The files of a page, and those of the studio that its modules import."""
    paths = {path.name: path for path in (*sorted(STATIC.iterdir()), *(SHARED / name for name in SHARED_FILES))}
    waiting = [path for path in paths.values() if path.suffix == ".js"]
    while waiting:
        for name in IMPORT.findall(waiting.pop().read_text(encoding="utf-8")):
            if name not in paths:
                paths[name] = SHARED / name
                waiting.append(paths[name])
    return list(paths.values())


def find_onnxruntime_web(given: str = "") -> Path | None:
    """The files of onnxruntime-web: in a folder that is given, or as npm has installed it; None if it is nowhere.

    npm installs into node_modules of a folder, of the Python environment (``npm install --prefix``), or of the system.
    """
    if given:
        for folder in (Path(given), Path(given) / "dist", Path(given) / "onnxruntime-web" / "dist"):
            if _has_runtime(folder):
                return folder
        raise ValueError(f"{given}: expected a folder of onnxruntime-web with {', '.join(RUNTIME_FILES)}")
    folders = [folder / "node_modules" for folder in (Path.cwd(), *Path.cwd().parents, Path(sys.prefix))]
    for folder in (*folders, *_system_modules()):
        if _has_runtime(folder / "onnxruntime-web" / "dist"):
            return folder / "onnxruntime-web" / "dist"
    return None


def _has_runtime(folder: Path) -> bool:
    return all((folder / name).is_file() for name in RUNTIME_FILES)


def _system_modules() -> list[Path]:
    """The folder that ``npm install --global`` installs into."""
    npm = shutil.which("npm")
    if npm is None:
        return []
    try:
        command = [npm, "root", "--global"]
        answer = subprocess.run(command, capture_output=True, text=True, timeout=NPM_SECONDS, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [Path(answer.stdout.strip())] if answer.returncode == 0 and answer.stdout.strip() else []
