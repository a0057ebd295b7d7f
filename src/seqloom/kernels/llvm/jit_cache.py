"""JIT compilation of LLVM IR for this processor, with a cache of object code on disk. LLVM comes with llvmlite."""

import ctypes
import hashlib
import platform
import sys
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path

import llvmlite
import llvmlite.binding as llvm

from seqloom.cache import CacheFolder

_lock = threading.Lock()
_folder = CacheFolder("kernels")


@cache
def _cpu_features() -> dict[str, bool]:
    return dict(llvm.get_host_cpu_features())


@cache
def vector_bytes() -> int:
    """Width of the widest vector registers (AVX-512, AVX2, else 128 bits)."""
    features = _cpu_features()
    return 64 if features.get("avx512f") else 32 if features.get("avx2") else 16


def has_cpu_feature(name: str) -> bool:
    """Whether the processor has a feature, by its name in LLVM."""
    return _cpu_features().get(name, False)


@cache
def vector_registers() -> int:
    """Number of vector registers."""
    is_narrow_x86 = platform.machine().lower() in ("x86_64", "amd64") and not _cpu_features().get("avx512f")
    return 16 if is_narrow_x86 else 32


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
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    features = llvm.get_host_cpu_features().flatten()
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=features, opt=3, reloc="pic", codemodel="default", jit=True
    )


@cache
def _jit() -> llvm.LLJIT:
    # JITLink keeps code and constants together. The older linker may place them more than 2 GB apart in a process that
    # has mapped much memory, such as a worker of Ray, and aborts.
    return llvm.create_lljit_compiler(_target_machine(), use_jit_link=sys.platform != "win32")


def _compile(text: str) -> bytes:
    module = llvm.parse_assembly(text)
    module.triple = llvm.get_process_triple()
    module.data_layout = str(_target_machine().target_data)
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = False  # the IR uses vectors already
    options.slp_vectorization = False
    options.loop_unrolling = False
    passes = llvm.create_pass_builder(_target_machine(), options)
    passes.getModulePassManager().run(module, passes)
    code: bytes = _target_machine().emit_object(module)
    return code


def load(key: str, emit: Callable[[], str], functions: tuple[str, ...], **symbols: int) -> tuple[int, ...]:
    """Compile and link a module, or load it from the cache; the addresses of its ``functions``.

    ``emit`` writes the module as LLVM assembly, and ``key`` must determine that text. ``symbols`` are addresses of
    external functions that the module calls.
    """
    with _lock:
        name = hashlib.sha256(source_digest() + key.encode()).hexdigest()[:32]
        if name in _libraries:
            return tuple(int(_libraries[name][function]) for function in functions)
        _target_machine()
        code = _folder.read(f"{name}.o")
        if code is None:
            code = _compile(emit())
            _folder.write(f"{name}.o", code)
        library = llvm.JITLibraryBuilder().add_object_img(code)
        for symbol, address in symbols.items():
            library = library.import_symbol(symbol, address)
        for function in functions:
            library = library.export_symbol(function)
        library_tracker = _libraries[name] = library.link(_jit(), name)
        return tuple(int(library_tracker[function]) for function in functions)


_libraries: dict[str, llvm.ResourceTracker] = {}
"""Code is freed together with its tracker, so trackers are kept for the life of the process."""


def c_function(address: int, *arguments: type) -> Callable[..., None]:
    """A C function without a result as a Python callable; it releases the GIL."""
    return ctypes.CFUNCTYPE(None, *arguments)(address)
