"""The processors that code can be compiled for besides this one, which kernels are written for by default."""

import platform
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache

import llvmlite.binding as llvm


@dataclass(frozen=True)
class Target:
    """A processor: what LLVM calls it, and what the code generators have to know of it."""

    name: str
    architecture: str  # x86_64, aarch64 or wasm32
    cpu: str  # of LLVM; empty: any
    features: str  # of LLVM, further ones
    vector_bytes: int
    vector_registers: int
    has_fma: bool  # multiplies and adds in one instruction

    @property
    def triple(self) -> str:
        """LLVM's name of the system: that of this machine, with another architecture where it differs."""
        if self.architecture == "wasm32":
            return "wasm32-unknown-unknown"
        process: str = llvm.get_process_triple()
        own, _, rest = process.partition("-")
        return process if ARCHITECTURES.get(own) == self.architecture else f"{self.architecture}-{rest}"

    def machine(self, *, jit: bool = False) -> llvm.TargetMachine:
        """LLVM's code generator."""
        if self.architecture == this_architecture():
            llvm.initialize_native_target()
            llvm.initialize_native_asmprinter()
        else:
            llvm.initialize_all_targets()
            llvm.initialize_all_asmprinters()
        is_wasm = self.architecture == "wasm32"
        return llvm.Target.from_triple(self.triple).create_target_machine(
            cpu=self.cpu,
            features=self.features,
            opt=3,
            reloc="static" if is_wasm else "pic",
            codemodel="default",
            jit=jit,
        )

    @property
    def runs_here(self) -> bool:
        """Whether this processor has all instructions of the target."""
        if self.architecture != this_architecture():
            return False
        own = llvm.get_host_cpu_features()
        return all(own.get(feature, False) for feature in REQUIRED.get(self.name, ()))


ARCHITECTURES = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}
"""The names that systems have for an architecture."""

REQUIRED = {
    "x86-64-v2": ("sse4.2", "popcnt"),
    "x86-64-v3": ("avx2", "fma", "bmi2"),
    "x86-64-v4": ("avx512f", "avx512bw", "avx512dq", "avx512vl"),
}
"""Features without which code for a target does not run, besides those of its architecture."""

PORTABLE = {
    target.name: target
    for target in (
        Target("x86-64", "x86_64", "x86-64", "", 16, 16, has_fma=False),
        Target("x86-64-v2", "x86_64", "x86-64-v2", "", 16, 16, has_fma=False),
        Target("x86-64-v3", "x86_64", "x86-64-v3", "", 32, 16, has_fma=True),
        Target("x86-64-v4", "x86_64", "x86-64-v4", "", 64, 32, has_fma=True),
        Target("aarch64", "aarch64", "", "", 16, 32, has_fma=True),
        Target("wasm32", "wasm32", "", "+simd128", 16, 16, has_fma=False),
    )
}
"""Targets that do not depend on this machine, by their names."""


def this_architecture() -> str:
    """The architecture of this machine."""
    return ARCHITECTURES.get(platform.machine().lower(), platform.machine().lower())


@cache
def native() -> Target:
    """The processor of this machine, with all of its features."""
    features = llvm.get_host_cpu_features()
    has_avx512 = features.get("avx512f", False)
    is_x86 = this_architecture() == "x86_64"
    return Target(
        "native",
        this_architecture(),
        llvm.get_host_cpu_name(),
        features.flatten(),
        vector_bytes=64 if has_avx512 else 32 if features.get("avx2", False) else 16,
        vector_registers=16 if is_x86 and not has_avx512 else 32,
        has_fma=not is_x86 or features.get("fma", False),
    )


_current: ContextVar[Target | None] = ContextVar("target", default=None)


def current() -> Target:
    """The processor that code is being written for."""
    return _current.get() or native()


def is_foreign() -> bool:
    """Whether code is being written for a target that was chosen, and not for a call in this process."""
    return _current.get() is not None


@contextmanager
def compiling_for(target: Target | None) -> Iterator[None]:
    """In this context, and in this thread, code is written for a target; None: for this processor again."""
    token = _current.set(target)
    try:
        yield
    finally:
        _current.reset(token)
