"""What is installed, what the machine has, and which cells run fused here."""

import os
import platform
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import seqloom
from seqloom import terminal


@dataclass(frozen=True)
class Info:
    """The facts that a bug report or a benchmark needs."""

    versions: dict[str, str]
    processor: str
    cores: int
    threads: int
    vector_bits: int  # of the processor's widest registers
    cache_folder: str
    cache_files: int
    cache_bytes: int
    cells: dict[str, str]  # fused, or why not


def processor() -> str:
    """The processor's name as the system knows it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def collect() -> Info:
    """Look around."""
    import torch

    from seqloom.kernels.llvm import jit_cache
    from seqloom.layers.build import names
    from seqloom.layers.recurrent.recurrent import Recurrent

    cells = {name: Recurrent(kind(8, 16)).path for name, kind in names().items()}
    folder = jit_cache.cache_folder()
    sizes = [file.stat().st_size for file in folder.glob("*.o")]
    return Info(
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


def show(found: Info) -> None:
    """Print what was found."""
    cache = f"{found.cache_folder} ({found.cache_files} files, {found.cache_bytes / 1e6:.1f} MB)"
    rows = [
        *found.versions.items(),
        ("processor", f"{found.processor}, {found.cores} cores"),
        ("threads", str(found.threads)),
        ("vector registers", f"{found.vector_bits} bits"),
        ("kernel cache", cache),
    ]
    terminal.table(("property", "value"), rows)
    terminal.table(("cell", "path"), list(found.cells.items()))
