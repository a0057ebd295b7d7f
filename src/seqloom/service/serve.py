"""Loads runs and exported files, and serves them."""

import logging
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from seqloom import terminal
from seqloom.service.app import build_app
from seqloom.service.served_models import ModelStore, ServedModel, unique_names
from seqloom.service.server import address, listen, make_server
from seqloom.service.settings import ServiceSettings
from seqloom.service.telemetry import configure_logging

EXPORTED = ".onnx"


def serve_runs(
    paths: Sequence[Path],
    settings: ServiceSettings,
    *,
    threads: int = 1,
    search: str = "",
    **options: str,  # of loading a run: layer, constrain, lexicon, lm
) -> int:
    """Serve runs and exported files until SIGTERM or Ctrl-C; the exit code."""
    settings.check()
    names = _names(paths)
    listener = listen(settings)  # before the models are loaded: an address that is taken is reported at once
    try:
        models = _load(paths, names, settings, threads=threads, search=search, **options)
    except BaseException:
        listener.close()
        raise

    server = make_server(build_app(ModelStore(models), settings), settings)
    for model in models:
        terminal.print_note(f"{model.name}: {model.current.task_name}, version {model.current.version}")
    url = address(listener)
    terminal.print_note(f"serving at {url}; {url}/openapi.json describes it; Ctrl-C stops")
    configure_logging()
    server.run(sockets=[listener])
    code = 130 if server.interrupted else 0
    if any(model.worker.is_computing for model in models):  # nobody waits for it: the time to drain is over
        logging.shutdown()
        os._exit(code)
    return code


def _names(paths: Sequence[Path]) -> list[str]:
    if all(path.suffix == EXPORTED for path in paths):
        return unique_names(paths, [path.stem for path in paths])
    from seqloom.service.served_runs import run_name

    return unique_names(paths, [path.stem if path.suffix == EXPORTED else run_name(path) for path in paths])


def _load(
    paths: Sequence[Path],
    names: Sequence[str],
    settings: ServiceSettings,
    *,
    threads: int,
    search: str,
    **options: str,
) -> list[ServedModel[Any]]:
    """The models; torch is imported only if there is a run."""
    models: list[ServedModel[Any]] = []
    given = [f"--{name}" for name, value in options.items() if value]
    for name, path in zip(names, paths, strict=True):
        if path.suffix != EXPORTED:
            models.append(_load_run(name, path, settings, threads=threads, search=search, **options))
            continue
        if given:
            raise ValueError(f"{path}: an exported file has no {given[0]}; serve the run itself")
        try:
            from seqloom.service.served_files import ServedFile
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(f"{error.name} is not installed; run pip install 'seqloom[export]'") from None
        models.append(ServedFile(name, path, settings, threads=threads, search=search))
    return models


def _load_run(
    name: str, path: Path, settings: ServiceSettings, *, threads: int, layer: str = "", **options: str
) -> ServedModel[Any]:
    import torch

    from seqloom.model import load
    from seqloom.run_config import find_layer
    from seqloom.service.served_runs import ServedRun

    torch.set_num_threads(threads)
    choices: dict[str, Any] = {**options, "layer": find_layer(layer)}
    return ServedRun(name, path, partial(load, **choices), settings)
