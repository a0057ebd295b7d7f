"""Loads runs and serves them."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import torch

from seqloom import terminal
from seqloom.model import load
from seqloom.run_config import find_layer
from seqloom.service.app import build_app
from seqloom.service.served_models import ModelStore, ServedModel, model_names
from seqloom.service.server import address, listen, make_server
from seqloom.service.settings import ServiceSettings
from seqloom.service.telemetry import configure_logging


def serve_runs(
    paths: Sequence[Path],
    settings: ServiceSettings,
    *,
    threads: int = 1,
    layer: str = "",
    search: str = "",
    constrain: str = "",
    lexicon: str = "",
    lm: str = "",
) -> int:
    """Serve the runs until SIGTERM or Ctrl-C; the exit code."""
    settings.check()
    torch.set_num_threads(threads)
    names = model_names(paths)
    load_run = partial(load, layer=find_layer(layer), search=search, constrain=constrain, lexicon=lexicon, lm=lm)
    listener = listen(settings)  # before the models are loaded: an address that is taken is reported at once
    try:
        models = [ServedModel(name, path, load_run, settings) for name, path in zip(names, paths, strict=True)]
    except BaseException:
        listener.close()
        raise

    server = make_server(build_app(ModelStore(models), settings), settings)
    for model in models:
        terminal.print_note(f"{model.name}: {model.model.task.name}, version {model.current.version}")
    url = address(listener)
    terminal.print_note(f"serving at {url}; {url}/openapi.json describes it; Ctrl-C stops")
    configure_logging()
    server.run(sockets=[listener])
    return 130 if server.interrupted else 0
