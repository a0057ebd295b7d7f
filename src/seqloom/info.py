"""``seqloom info``: versions, hardware and fused cells, or a summary of a run."""

import os
import platform
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

import seqloom
from seqloom import terminal
from seqloom.kernels.llvm import jit_cache
from seqloom.layers.build import cell_classes
from seqloom.layers.recurrent.recurrent import Recurrent
from seqloom.models.encoder import LayerFactory
from seqloom.run import Run
from seqloom.run_config import load_config


@dataclass(frozen=True)
class MachineInfo:
    """Versions and hardware, as a bug report or a benchmark needs them."""

    versions: dict[str, str]
    processor: str
    cores: int
    threads: int
    vector_bits: int  # width of the processor's vector registers
    cache_folder: str
    cache_files: int
    cache_bytes: int
    cells: dict[str, str]  # "fused", or why a cell is not


def processor() -> str:
    """The name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def machine_info() -> MachineInfo:
    """Versions and hardware of this machine."""
    cells = {name: Recurrent(kind(8, 16)).path for name, kind in cell_classes().items()}
    folder = jit_cache.cache_folder()
    sizes = [file.stat().st_size for file in folder.glob("*.o")]
    return MachineInfo(
        versions={
            "seqloom": seqloom.__version__,
            "python": platform.python_version(),
            **{name: version(name) for name in ("torch", "llvmlite", "numpy")},
        },
        processor=processor(),
        cores=os.cpu_count() or 1,
        threads=torch.get_num_threads(),
        vector_bits=8 * jit_cache.vector_bytes(),
        cache_folder=str(folder),
        cache_files=len(sizes),
        cache_bytes=sum(sizes),
        cells=cells,
    )


def print_machine_info(info: MachineInfo) -> None:
    """Print two tables: versions and hardware, and how each cell is computed."""
    cache = f"{info.cache_folder} ({info.cache_files} files, {info.cache_bytes / 1e6:.1f} MB)"
    rows = [
        *info.versions.items(),
        ("processor", f"{info.processor}, {info.cores} cores"),
        ("threads", str(info.threads)),
        ("vector registers", f"{info.vector_bits} bits"),
        ("kernel cache", cache),
    ]
    terminal.table(("component", "version or value"), rows)
    terminal.print_lines("")
    terminal.table(("cell", "computation"), list(info.cells.items()))


def describe_run(path: Path, *, layer: LayerFactory | None = None) -> dict[str, Any]:
    """The task and size of a run's model, its best metrics, and the versions it was trained with."""
    run = Run.open(path)
    config = load_config(run, layer=layer)
    module = config.task.build_model()
    layers = sorted({part.path for part in module.modules() if isinstance(part, Recurrent)})
    return {
        "task": config.name,
        "parameters": sum(parameter.numel() for parameter in module.parameters()),
        "recurrent layers": "; ".join(layers) or "none",
        "best update": run.load_best().facts.get("update", "not evaluated yet"),
        **run.best_metrics(),
        **{name: run.environment[name] for name in ("seqloom", "torch", "python") if name in run.environment},
    }
