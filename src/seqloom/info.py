"""``seqloom info``: versions, hardware and fused cells, or a summary of a run."""

import os
import platform
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

import seqloom
from seqloom import terminal
from seqloom.formats import format_duration, format_value
from seqloom.insight.anatomy_plot import draw_anatomy
from seqloom.insight.model_parts import ModelPart, anatomy
from seqloom.insight.plotting import SUFFIXES, check_theme, named_plots
from seqloom.kernels.linalg import bfloat16_gemm, quantized_gemm
from seqloom.kernels.llvm import jit_cache
from seqloom.layers.build import cell_classes
from seqloom.layers.layer_error import LayerError
from seqloom.layers.recurrent.recurrent import Recurrent
from seqloom.models.decoder import Decoder
from seqloom.models.encoder import LayerFactory
from seqloom.models.stored_weights import build_for_weights
from seqloom.run import Run
from seqloom.run_config import Config, load_config
from seqloom.run_summary import commands, summarize, verdict


@dataclass(frozen=True)
class MachineInfo:
    """Versions and hardware, as a bug report or a benchmark needs them."""

    versions: dict[str, str]
    processor: str
    cores: int
    threads: int
    vector_bits: int  # width of the processor's vector registers
    bfloat16: str  # the instructions of train.precision = "bfloat16", or why it is refused here
    int8: str  # the instructions of int8 models
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
        bfloat16=bfloat16_gemm.unsupported() or f"{bfloat16_gemm.instructions()} (train.precision)",
        int8=quantized_gemm.instructions().name,
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
        ("bfloat16 products", info.bfloat16),
        ("int8 products", info.int8),
        ("kernel cache", cache),
    ]
    terminal.table(("component", "version or value"), rows)
    terminal.print_lines("")
    terminal.table(("cell", "computation"), list(info.cells.items()))


def describe_run(path: Path, *, layer: LayerFactory | None = None) -> dict[str, Any]:
    """What a run was trained on, its size, how training ended, its scores and settings; needs no custom layer."""
    run = Run.open(path)
    config = load_config(run, layer=layer)
    summary = summarize(run, config)
    dev = summary.dev or (f"{summary.dev_fraction:.0%} of the training data" if summary.dev_fraction else "none")
    return {
        "task": summary.task,
        "training data": summary.train,
        "training examples": summary.examples.get("train"),
        "dev data": dev,
        "dev examples": summary.examples.get("dev"),
        "parameters": summary.parameters,
        "precision": run.precision,
        "precision of training": config.train.precision,
        **_computation(run, config),
        "started": summary.started or None,
        "training time": format_duration(summary.seconds),
        "finished": summary.finished or "no",
        "best epoch": summary.best_epoch,
        "best update": "not evaluated yet" if summary.best_update is None else summary.best_update,
        **summary.metrics,
        "baseline": {"name": summary.baseline, **summary.baseline_scores} if summary.baseline else {},
        "settings": summary.settings,
        **summary.versions,
    }


def run_anatomy(path: Path, *, layer: LayerFactory | None = None) -> ModelPart:
    """The parts of the best model of a run, with their widths, weights and numbers of parameters."""
    run = Run.open(path)
    task = load_config(run, layer=layer).task
    return anatomy(task.load_model(run.load_best().model, run.path))


def draw_run_anatomy(root: ModelPart, run: Path, file: Path, *, theme: str = "") -> None:
    """Draw the parts of a run's model to a file."""
    if file.suffix not in SUFFIXES:
        raise ValueError(f"{file}: a picture is written as {', '.join(SUFFIXES)}")
    opened = Run.open(run)
    with named_plots(opened.name, theme=check_theme(theme or load_config(opened).train.plot_theme)):
        draw_anatomy(root, file)


def _computation(run: Run, config: Config) -> dict[str, str]:
    """How recurrent layers and the steps of generation are computed, and why some are not compiled."""
    task, weights = config.task, run.load_best().model
    try:
        module = build_for_weights(task.build_model, weights, run.path, trusted=task.runs_own_code).eval()
    except LayerError as error:  # a custom layer is code, which a run does not contain
        return {"recurrent layers": "unknown", "note": str(error)}
    recurrent = _kinds_and_reasons(part.path for part in module.modules() if isinstance(part, Recurrent))
    steps = _kinds_and_reasons(part.path for part in module.modules() if isinstance(part, Decoder))
    notes = [
        f"{what}: {reasons}"
        for what, (_, reasons) in (
            ("recurrent layers that run step by step in Python", recurrent),
            ("steps of generation that run layer by layer", steps),
        )
        if reasons
    ]
    return {
        "recurrent layers": recurrent[0] or "none",
        **({"generation": steps[0]} if steps[0] else {}),
        **({"note": "; ".join(notes)} if notes else {}),
    }


def _kinds_and_reasons(paths: Iterable[str]) -> tuple[str, str]:
    """The kinds of computation, and the reasons that follow a colon."""
    parts = [path.partition(":") for path in sorted(set(paths))]
    kinds = dict.fromkeys(kind for kind, _, _ in parts)
    return ", ".join(kinds), "; ".join(reason.strip() for _, separator, reason in parts if separator)


def print_run(path: Path, *, layer: LayerFactory | None = None) -> None:
    """Print the description of a run: facts, scores beside the baseline, settings, and commands to use it."""
    run = Run.open(path)
    summary = summarize(run, load_config(run, layer=layer))
    description = describe_run(path, layer=layer)
    facts = {
        name: f"{value:,}" if isinstance(value, int) else format_value(value)
        for name, value in description.items()
        if name not in summary.metrics and name != "note" and value is not None and not isinstance(value, dict)
    }
    terminal.print_pairs(facts)
    if description.get("note"):
        terminal.print_lines("")
        terminal.print_wrapped(f"note: {description['note']}")
    if summary.metrics:
        terminal.print_lines("")
        terminal.print_scores(summary.metrics, summary.baseline_scores, source="dev")
    if sentence := verdict(summary):
        terminal.print_lines("")
        terminal.print_wrapped(sentence)
    if summary.settings:
        terminal.print_lines("", "Settings that differ from their defaults:")
        terminal.print_pairs({f"  {key}": format_value(value) for key, value in summary.settings.items()})
    terminal.print_lines("")
    terminal.print_pairs(commands(summary))
