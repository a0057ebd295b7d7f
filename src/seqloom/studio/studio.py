"""Starts the studio and opens it in a browser."""

import threading
import webbrowser
from collections.abc import Sequence
from pathlib import Path

import torch

from seqloom import terminal
from seqloom.service.server import address, listen, make_server
from seqloom.service.settings import ServiceSettings
from seqloom.service.telemetry import configure_logging
from seqloom.studio.app import build_app


def run_studio(
    folder: Path,
    settings: ServiceSettings,
    *,
    open_browser: bool,
    threads: int = 1,
    layers: Sequence[str] = (),  # custom layers of the runs, as module:name
) -> int:
    """Serve the studio until Ctrl-C; the exit code."""
    settings.check()
    if not folder.is_dir():
        raise ValueError(f"{folder}: no such folder; give the one that holds your runs, such as runs")
    torch.set_num_threads(threads)
    app = build_app(folder, settings, layers)
    listener = listen(settings)
    server = make_server(app, settings)
    url = address(listener)
    terminal.print_note(f"studio of {folder} at {url}; Ctrl-C stops")
    configure_logging(requests=False)
    if open_browser:
        threading.Timer(0.3, webbrowser.open, [url]).start()
    server.run(sockets=[listener])
    return 0
