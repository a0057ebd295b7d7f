"""The processor that kernels are compiled for, and a cache of compiled kernels on disk. LLVM comes with llvmlite."""

import ctypes
import hashlib
import os
import platform
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

import llvmlite
import llvmlite.binding as llvm

_lock = threading.Lock()


@cache
def _features() -> dict[str, bool]:
    return dict(llvm.get_host_cpu_features())


@cache
def vector_bytes() -> int:
    """Width of the widest vector registers."""
    features = _features()
    return 64 if features.get("avx512f") else 32 if features.get("avx2") else 16


@cache
def vector_registers() -> int:
    """How many vector registers there are."""
    few = platform.machine().lower() in ("x86_64", "amd64") and not _features().get("avx512f")
    return 16 if few else 32


def cache_folder() -> Path:
    """Where compiled kernels are kept: ``SEQLOOM_CACHE``, or the user's cache folder."""
    chosen = os.environ.get("SEQLOOM_CACHE")
    if chosen:
        return Path(chosen) / "kernels"
    if sys.platform == "win32":
        root = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    elif sys.platform == "darwin":
        root = Path.home() / "Library" / "Caches"
    else:
        root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return root / "seqloom" / "kernels"


@cache
def generator() -> bytes:
    """A digest of everything besides the key that the compiled code depends on."""
    digest = hashlib.sha256()
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.read_bytes())
    features = ",".join(sorted(name for name, present in _features().items() if present))
    digest.update(f"{llvmlite.__version__} {llvm.get_host_cpu_name()} {features}".encode())
    return digest.digest()


@cache
def _target() -> llvm.TargetMachine:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    features = llvm.get_host_cpu_features().flatten()
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=features, opt=3, reloc="pic", codemodel="default", jit=True
    )


@cache
def _linker() -> llvm.LLJIT:
    return llvm.create_lljit_compiler(_target())


def _compile(text: str) -> bytes:
    module = llvm.parse_assembly(text)
    module.triple = llvm.get_process_triple()
    module.data_layout = str(_target().target_data)
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = False  # the code is written as vectors already
    options.slp_vectorization = False
    options.loop_unrolling = False
    passes = llvm.create_pass_builder(_target(), options)
    passes.getModulePassManager().run(module, passes)
    code: bytes = _target().emit_object(module)
    return code


LIMIT = 2000
"""Files in the cache; those that were not used for longest are removed."""


def _keep(path: Path, code: bytes) -> None:
    """Write the file whole or not at all; a cache that cannot be written costs time, not correctness."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            try:
                file.write(hashlib.sha256(code).digest() + code)
                file.flush()
                Path(file.name).replace(path)
            except OSError:
                Path(file.name).unlink()
        _prune(path.parent)
    except OSError:
        return


def _prune(folder: Path) -> None:
    files = list(folder.glob("*.o"))
    if len(files) > LIMIT:
        files.sort(key=lambda file: file.stat().st_mtime)
        for file in files[: -LIMIT // 2]:
            file.unlink(missing_ok=True)


def _kept(path: Path) -> bytes | None:
    """The code in a cache file, or None if there is none or it is damaged."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    with suppress(OSError):
        os.utime(path)  # used just now
    return content[32:] if hashlib.sha256(content[32:]).digest() == content[:32] else None


def load(key: str, emit: Callable[[], str], functions: tuple[str, ...], **symbols: int) -> tuple[int, ...]:
    """Addresses of ``functions`` in the code that ``emit`` writes as LLVM assembly; ``key`` must determine that text.

    ``symbols`` are addresses of functions that the code calls.
    """
    with _lock:
        name = hashlib.sha256(generator() + key.encode()).hexdigest()[:32]
        if name in _linked:
            return tuple(int(_linked[name][function]) for function in functions)
        path = cache_folder() / f"{name}.o"
        _target()
        code = _kept(path)
        if code is None:
            code = _compile(emit())
            _keep(path, code)
        library = llvm.JITLibraryBuilder().add_object_img(code)
        for symbol, address in symbols.items():
            library = library.import_symbol(symbol, address)
        for function in functions:
            library = library.export_symbol(function)
        linked = _linked[name] = library.link(_linker(), name)
        return tuple(int(linked[function]) for function in functions)


_linked: dict[str, llvm.ResourceTracker] = {}
"""Code is freed with its tracker; kernels live as long as the process."""


def function(address: int, *arguments: type) -> Callable[..., None]:
    """A C function without result; the interpreter lock is released while it runs."""
    return ctypes.CFUNCTYPE(None, *arguments)(address)
