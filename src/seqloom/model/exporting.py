"""A loaded model, written for other programs: ONNX, web pages, object files, WebAssembly, and formats of its task."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from seqloom.data.batch import split_by_padding
from seqloom.data.drawing_style import drawing_style
from seqloom.data.readers.text_files import DataError
from seqloom.training_data import dev_examples

if TYPE_CHECKING:
    from seqloom.export_check import ExportCheck
    from seqloom.model.model import Model

CHECKED, CHECKED_TOGETHER = 256, 16
"""Examples on which an exported model is compared with its run, and how many in a batch."""
COMPILED = (".o", ".wasm")


@dataclass(frozen=True)
class ExportTarget:
    """What is written; the suffix of the path chooses the format, and a path without one is the folder of a page."""

    path: Path
    runtime: bool  # write seqloom_runtime.py beside an ONNX file
    onnxruntime_web: str  # of a page: its folder; empty: where npm has installed it
    processor: str  # of an object file; empty: any like this one


def write_export(model: "Model", target: ExportTarget, *, check: Any) -> "ExportCheck | None":
    """Write a model. ONNX files, pages and compiled models are written only if they answer as it does.

    ``check``: examples for this comparison; None: the dev data of the run.
    """
    suffix = target.path.suffix
    if suffix not in (".onnx", *COMPILED, ""):
        model.task.export(model.module, target.path)
        return None
    if model.precision == "int8":
        raise ValueError("an exported file holds a float32 model: export the run that the int8 model was made from")
    with torch.no_grad():
        return _write_compiled(model, target, check) if suffix in COMPILED else _write_onnx(model, target, check)


def _write_compiled(model: "Model", target: ExportTarget, check: Any) -> "ExportCheck":
    from seqloom.standalone import exported

    title = f"A model of the task {model.task.name}: the run {model.name}, compiled by Seqloom."
    compiled = model.task.standalone_model(model.module)
    return exported.write(compiled, target.path, _checked_batches(model, check), target=target.processor, title=title)


def _write_onnx(model: "Model", target: ExportTarget, check: Any) -> "ExportCheck":
    try:
        from seqloom.onnx.exported import write, write_runtime
        from seqloom.onnx.page import find_onnxruntime_web, write_page
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"the export to ONNX needs the package {error.name}: pip install 'seqloom[export]'", name=error.name
        ) from error
    metadata = {"task": model.task.name, "name": model.name, "config": model.config.text()}
    exported = model.task.onnx_model(model.module)
    checked = list(_checked_batches(model, check))
    if not target.path.suffix:
        library = find_onnxruntime_web(target.onnxruntime_web)
        style = drawing_style([example for batch in checked for example in batch])
        return write_page(exported, target.path, checked, metadata=metadata, onnxruntime_web=library, drawing=style)
    result = write(exported, target.path, checked, metadata=metadata, parts=target.runtime)
    if target.runtime:
        write_runtime(target.path.parent)
    return result


def _checked_batches(model: "Model", source: Any) -> Iterator[list[Any]]:
    """Some examples, on which an exported model is compared with the run."""
    if source is not None:
        examples = model.read(source)
    else:
        try:
            examples = dev_examples(model.config, model.trained_on)
        except (DataError, OSError) as error:
            raise ValueError(
                f"{error}: the exported model is compared with the run on its dev data; name other inputs "
                "(--check FILE, in Python check=…)"
            ) from error
    return split_by_padding(islice(examples, CHECKED), CHECKED_TOGETHER)
