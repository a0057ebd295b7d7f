"""JIT compilation of LLVM IR for this processor, with a cache of object code on disk. LLVM comes with llvmlite."""

import ctypes
import hashlib
import sys
import threading
from collections.abc import Callable
from functools import cache
from itertools import count
from pathlib import Path

import llvmlite
import llvmlite.binding as llvm

from seqloom.cache import CacheFolder
from seqloom.kernels.llvm import target
from seqloom.kernels.llvm.target import Target

_lock = threading.Lock()
_folder = CacheFolder("kernels")


@cache
def _cpu_features() -> dict[str, bool]:
    return dict(llvm.get_host_cpu_features())


def vector_bytes() -> int:
    """Width of the widest vector registers (AVX-512, AVX2, else 128 bits)."""
    return target.current().vector_bytes


def has_cpu_feature(name: str) -> bool:
    """Whether the processor has a feature, by its name in LLVM."""
    return _cpu_features().get(name, False)


def vector_registers() -> int:
    """Number of vector registers."""
    return target.current().vector_registers


def has_fma() -> bool:
    """Whether a product and a sum are one instruction; where it is none, LLVM would call the C library."""
    return target.current().has_fma


def cache_folder() -> Path:
    """Folder of compiled kernels."""
    return _folder.path


@cache
def source_digest() -> bytes:
    """Digest of everything that compiled code depends on besides its key: all kernel sources, LLVM, the processor."""
    digest = hashlib.sha256()
    for source in sorted(Path(__file__).parents[1].rglob("*.py")):
        digest.update(source.read_bytes())
    features = ",".join(sorted(name for name, present in _cpu_features().items() if present))
    digest.update(f"{llvmlite.__version__} {llvm.get_host_cpu_name()} {features}".encode())
    return digest.digest()


@cache
def _target_machine() -> llvm.TargetMachine:
    return target.native().machine(jit=True)


@cache
def _jit() -> llvm.LLJIT:
    # JITLink keeps code and constants together. The older linker may place them more than 2 GB apart in a process that
    # has mapped much memory, such as a worker of Ray, and aborts.
    return llvm.create_lljit_compiler(_target_machine(), use_jit_link=sys.platform != "win32")


def compile_object(text: str, chosen: Target, machine: llvm.TargetMachine) -> bytes:
    """LLVM assembly as an object file for a target."""
    module = llvm.parse_assembly(text)
    module.triple = chosen.triple
    module.data_layout = str(machine.target_data)
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = False  # the IR uses vectors already
    options.slp_vectorization = False
    options.loop_unrolling = False
    passes = llvm.create_pass_builder(machine, options)
    passes.getModulePassManager().run(module, passes)
    code: bytes = machine.emit_object(module)
    return code


def load(key: str, emit: Callable[[], str], functions: tuple[str, ...], **symbols: int) -> tuple[int, ...]:
    """Compile and link a module, or load it from the cache; the addresses of its ``functions``.

    ``emit`` writes the module as LLVM assembly, and ``key`` must determine that text. ``symbols`` are addresses of
    external functions that the module calls.
    """
    if target.is_foreign():
        raise RuntimeError("code for another processor cannot be called in this process")
    with _lock:
        name = hashlib.sha256(source_digest() + key.encode()).hexdigest()[:32]
        if name in _libraries:
            return tuple(int(_libraries[name][function]) for function in functions)
        _target_machine()
        code = _folder.read(f"{name}.o")
        if code is None:
            code = compile_object(emit(), target.native(), _target_machine())
            _folder.write(f"{name}.o", code)
        library = llvm.JITLibraryBuilder().add_object_img(code)
        for symbol, address in symbols.items():
            library = library.import_symbol(symbol, address)
        for function in functions:
            library = library.export_symbol(function)
        library_tracker = _libraries[name] = library.link(_jit(), name)
        return tuple(int(library_tracker[function]) for function in functions)


def link(code: bytes, functions: tuple[str, ...]) -> llvm.ResourceTracker:
    """Link an object file into this process: the addresses of its functions by name, for the life of the result."""
    with _lock:
        library = llvm.JITLibraryBuilder().add_object_img(code)
        for function in functions:
            library = library.export_symbol(function)
        return library.link(_jit(), f"object {next(_numbers)}")


_numbers = count()
"""Libraries that are linked from object files have a number as their name."""

_libraries: dict[str, llvm.ResourceTracker] = {}
"""Code is freed together with its tracker, so trackers are kept for the life of the process."""


def c_function(address: int, *arguments: type) -> Callable[..., None]:
    """A C function without a result as a Python callable; it releases the GIL."""
    return ctypes.CFUNCTYPE(None, *arguments)(address)
