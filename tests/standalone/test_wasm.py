"""The linker of WebAssembly modules, and models of several tasks in Node."""

import base64
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.contracts.test_standalone import few
from tests.standalone.test_exported import Trained, build

from seqloom.export_check import TOLERANCE, ExportError, relative_difference
from seqloom.kernels.llvm.target import PORTABLE
from seqloom.standalone.compiled import compile_for
from seqloom.standalone.interface import DTYPES, Assembly, assemble
from seqloom.standalone.wasm import link

NODE = shutil.which("node")
TASKS = "tag, crf", "forecast", "language_model", "transcribe, audio", "classify, sound"

RUN = """
import { readFileSync } from "node:fs";

const { calls } = JSON.parse(readFileSync("calls.json"));
const { instance } = await WebAssembly.instantiate(readFileSync("model.wasm"));
const { memory, __heap_base, model_predict, model_workspace_size } = instance.exports;
memory.grow(512);
const bytes = new Uint8Array(memory.buffer);

const answers = calls.map(({ inputs, length, sizes }) => {
    let free = __heap_base.value;
    const reserve = (size) => {
        const start = free;
        free += 64 * Math.ceil((size + 1) / 64);
        return start;
    };
    const given = inputs.map((text) => {
        if (text === null) return 0;
        const data = Buffer.from(text, "base64"), start = reserve(data.length);
        bytes.set(data, start);
        return start;
    });
    const outputs = sizes.map(reserve), size = model_workspace_size(length), workspace = reserve(size);
    const error = model_predict(...given, length, ...outputs, workspace, size);
    const read = (start, index) => Buffer.from(bytes.slice(start, start + sizes[index])).toString("base64");
    return { error, outputs: outputs.map(read) };
});
console.log(JSON.stringify(answers));
"""


def call(trained: Trained, feed: Any, row: int) -> dict[str, Any]:
    """The inputs of an example, and the bytes of its outputs."""
    length = int(feed["lengths"][row])
    inputs: list[str | None] = []
    for port in trained.model.inputs:
        if port.is_optional:
            inputs.append(None)
            continue
        values = feed[port.name][row][:length] if "length" in port.shape else feed[port.name][row]
        inputs.append(base64.b64encode(np.ascontiguousarray(values, DTYPES[port.kind]).tobytes()).decode())
    sizes = [shape_size(port, length) * np.dtype(DTYPES[port.kind]).itemsize for port in trained.model.outputs]
    return {"inputs": inputs, "length": length, "sizes": sizes}


def shape_size(port: Any, length: int) -> int:
    return int(np.prod([port.frames.count(length) if size == "length" else size for size in port.shape]))


@pytest.mark.skipif(NODE is None, reason="there is no Node (node)")
@pytest.mark.parametrize("name", few(TASKS, "tag, crf", "transcribe, audio"))
def test_modules_give_the_answers_of_models(name: str, tmp_path: Path) -> None:
    """Labels, doubles, states, and the spectrum of sound."""
    trained = build(name, tmp_path)
    examples = trained.examples[:4]
    assembly = assemble(trained.model, "model", PORTABLE["wasm32"])
    (tmp_path / "model.wasm").write_bytes(link(compile_for(assembly, PORTABLE["wasm32"]), assembly.functions))
    feed = trained.model.feed(examples)
    (tmp_path / "calls.json").write_text(
        json.dumps({"calls": [call(trained, feed, row) for row in range(len(examples))]})
    )
    (tmp_path / "run.mjs").write_text(RUN)
    output = subprocess.run([str(NODE), "run.mjs"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    with torch.no_grad():
        expected = trained.model.expected(examples)
    compared = 0
    for row, answer in enumerate(json.loads(output)):
        assert answer["error"] == 0
        for port, data in zip(trained.model.outputs, answer["outputs"], strict=True):
            if port.name not in expected:
                continue
            values = np.frombuffer(base64.b64decode(data), DTYPES[port.kind])
            truth = np.asarray(expected[port.name][row])
            unit = np.broadcast_to(trained.model.units.get(port.name, 1.0), truth.shape).ravel()[: len(values)]
            assert relative_difference(values / unit, truth.ravel()[: len(values)] / unit) <= TOLERANCE
            compared += len(values)
    assert compared > 0


def test_what_cannot_be_linked_is_refused() -> None:
    """A call of a function that nothing defines."""
    target = PORTABLE["wasm32"]
    text = "declare i32 @missing(i32)\ndefine i32 @model(i32 %x) {\n  %y = call i32 @missing(i32 %x)\n  ret i32 %y\n}\n"
    code = compile_for(Assembly(text, ("model",), None), target)  # type: ignore[arg-type]
    with pytest.raises(ExportError, match=r"imports env\.missing, which a module without a runtime lacks"):
        link(code, ("model",))
    with pytest.raises(ExportError, match="not written a WebAssembly object file"):
        link(b"\x7fELF", ("model",))
