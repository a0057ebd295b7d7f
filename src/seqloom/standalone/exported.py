"""A model as an object file with its C header, or as a WebAssembly module."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from seqloom import files
from seqloom.export_check import ExportCheck, ExportError
from seqloom.kernels.llvm.target import PORTABLE, Target, native, this_architecture
from seqloom.standalone.compiled import CompiledModel, compile_for
from seqloom.standalone.header import header, identifier
from seqloom.standalone.interface import StandaloneModel, assemble
from seqloom.standalone.wasm import link


def choose_target(name: str, path: Path) -> Target:
    """The target of a name; empty: what the file is for, on any processor of this machine's architecture."""
    known = [*PORTABLE, "native"]
    if path.suffix == ".wasm":
        if name not in ("", "wasm32"):
            raise ExportError(f"{path}: a .wasm file is for wasm32, not for the target {name}")
        return PORTABLE["wasm32"]
    if name == "wasm32":
        raise ExportError(f"{path}: a model for wasm32 is a file with the suffix .wasm")
    if name == "native":
        return native()
    chosen = name or {"x86_64": "x86-64"}.get(this_architecture(), this_architecture())
    if chosen not in PORTABLE:
        raise ExportError(f'unknown target "{chosen}" (allowed: {", ".join(known)})')
    return PORTABLE[chosen]


def write(
    model: StandaloneModel,
    path: Path,
    batches: Iterable[Sequence[Any]],
    *,
    target: str = "",  # a name of ``kernels/llvm/target.py``; empty: see ``choose_target``
    title: str = "",  # of the header
) -> ExportCheck:
    """Write the file, and beside an object file its header, if it gives the answers of the model."""
    chosen, name = choose_target(target, path), identifier(path.stem)
    assembly = assemble(model, name, chosen)
    code = compile_for(assembly, chosen)
    count, difference = CompiledModel.load(model, assembly, code, chosen).check(batches)
    if not count:
        raise ExportError("there are no examples to compare the exported model with the original on (--check FILE)")
    is_wasm = path.suffix == ".wasm"
    data = link(code, assembly.functions) if is_wasm else code
    files.write(path, data)
    if not is_wasm:  # sizes of the workspace depend on the target
        files.write(path.with_suffix(".h"), header(model, name, assembly, title=title).encode())
    return ExportCheck(count, difference, len(data), "" if chosen.runs_here else chosen.name)
