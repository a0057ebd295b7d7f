"""Answers per second of ``seqloom serve``, a plain server and LitServe: ``python -m benchmarks.serve RUN [--quick]``.

All of them serve the same tagger or classifier of texts, with one thread for its computations, and are asked in turn.
Each connection sends its next request after the answer to the last one. LitServe is measured if it is installed. Needs
Linux.
"""

import argparse
import asyncio
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import IO

from benchmarks.child_process import ROOT
from benchmarks.http_load import HOST, Connection, Load, Request, keep_busy
from seqloom import terminal

WORDS = ("for", "name", "in", "names", ":", "if", "x", "==", "0.5", "return", "[", "]", "def", "(", "self", ")")
CONNECTIONS = (1, 8, 32)
PATIENCE = 600  # seconds until a server has to answer


@dataclass
class Server:
    """A server, and what was measured of it."""

    name: str
    process: "subprocess.Popen[bytes]"
    port: int
    log: IO[bytes]
    loads: dict[int, list[Load]] = field(default_factory=dict)  # by the number of connections
    processor: dict[int, float] = field(default_factory=dict)  # seconds of processor time for these

    def processor_seconds(self) -> float:
        """Processor time of the server and the processes that it has started."""
        return sum(map(_seconds_of, _descendants(self.process.pid)))


def requests(seed: int) -> Iterator[Request]:
    """Requests with one text of up to 40 words, without end."""
    draw = random.Random(seed)  # noqa: S311  no secret
    while True:
        text = " ".join(draw.choices(WORDS, k=draw.randint(1, 40)))
        yield Request("/v1/predict", json.dumps({"inputs": [text]}).encode())


def _descendants(pid: int) -> list[int]:
    """A process and all that it has started."""
    pids = [pid]
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in path.read_text().split():
            pids += _descendants(int(child))
    return pids


def _seconds_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _free_port() -> int:
    with socket.create_server((HOST, 0)) as listener:
        return int(listener.getsockname()[1])


@contextmanager
def started(name: str, *command: str) -> Iterator[Server]:
    """Start a server; ``PORT`` in the command is replaced."""
    port = _free_port()
    arguments = [sys.executable, "-m", *(str(port) if word == "PORT" else word for word in command)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(arguments, cwd=ROOT, stdout=log, stderr=log, env=environment)  # noqa: S603
        try:
            yield Server(name, process, port, log)
        finally:
            children = _descendants(process.pid)[1:]
            process.terminate()
            process.wait(60)
            for child in children:  # that the server has not ended itself
                with suppress(ProcessLookupError):
                    os.kill(child, 9)


async def wait_until_ready(server: Server) -> None:
    """Ask until there is an answer."""
    for _ in range(10 * PATIENCE):
        with suppress(OSError):
            answer = await Connection(server.port).ask(next(requests(1)))
            if answer.status == 200:
                return
        if server.process.poll() is not None:
            break
        await asyncio.sleep(0.1)
    server.log.seek(0)
    raise RuntimeError(f"{server.name} does not answer:\n{server.log.read().decode(errors='replace')[-2000:]}")


async def measure(servers: list[Server], *, rounds: int, seconds: float) -> None:
    """Load all servers in turn."""
    for server in servers:
        await wait_until_ready(server)
        await keep_busy(server.port, requests, connections=8, seconds=seconds)
    for connections in CONNECTIONS:
        for _ in range(rounds):
            for server in servers:
                before = server.processor_seconds()
                load = await keep_busy(server.port, requests, connections=connections, seconds=seconds)
                if load.errors:
                    raise RuntimeError(f"{server.name}: {load.errors[0]}")
                spent = server.processor.get(connections, 0.0) + server.processor_seconds() - before
                server.processor[connections] = spent
                server.loads.setdefault(connections, []).append(load)


def report(servers: list[Server]) -> None:
    """Print a table."""
    rows = []
    for connections in CONNECTIONS:
        for server in servers:
            loads = server.loads[connections]
            answers = sum(len(load.seconds) for load in loads)
            rows.append(
                (
                    str(connections),
                    server.name,
                    f"{statistics.median(load.rate for load in loads):,.0f}",
                    f"{max(load.rate for load in loads):,.0f}",
                    f"{1000 * statistics.median(load.percentile(50) for load in loads):.1f}",
                    f"{1000 * server.processor[connections] / answers:.2f}",
                )
            )
    terminal.table(("connections", "server", "answers/s", "best", "median ms", "processor ms/answer"), rows)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serve", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("run", type=Path, help="run of a tagger or classifier of texts")
    parser.add_argument("--quick", action="store_true", help="one short round")
    options = parser.parse_args()
    run = str(options.run.resolve())
    rounds, seconds = (1, 1.0) if options.quick else (5, 3.0)
    peers = [("plain server", "benchmarks.peers.plain_server", run, "PORT")]
    if find_spec("litserve") is not None:
        peers.append(("LitServe", "benchmarks.peers.litserve_server", run, "PORT"))
    else:
        print("Skipping LitServe: not installed (scripts/peers)", file=sys.stderr)
    commands = [("seqloom serve", "seqloom", "serve", run, "--port", "PORT"), *peers]
    with ExitStack() as stack:
        servers = [stack.enter_context(started(name, *command)) for name, *command in commands]
        asyncio.run(measure(servers, rounds=rounds, seconds=seconds))
        report(servers)


if __name__ == "__main__":
    main()
