"""Hold `seqloom serve` to its promises: a real server, real connections, figures; see scripts/load."""

import argparse
import asyncio
import json
import os
import random
import re
import resource
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from tests.service.hostile_requests import FOREIGN_HOSTS, FOREIGN_ORIGINS, OTHER_PATHS, hostile_bodies

from benchmarks.http_load import HOST, Answer, Connection, Request, close, keep_busy

PREDICT = "/v1/predict"
WORDS = ("for", "name", "in", "names", ":", "if", "x", "==", "0.5", "return", "[", "]", "def", "(", "self", ")")
MEGABYTE = 1e6


class Finding(NamedTuple):
    """What was measured for a part of a promise."""

    promise: str
    measured: str
    kept: bool
    is_timing: bool = False  # depends on the machine and its load


@dataclass(frozen=True)
class Service:
    """A running `seqloom serve`."""

    process: subprocess.Popen[str]
    port: int

    @property
    def megabytes(self) -> float:
        """Resident memory."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * resource.getpagesize() / MEGABYTE

    @property
    def processor_seconds(self) -> float:
        """Processor time since the start."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    async def ask(self, request: Request) -> Answer:
        return await self.exchange(request.encode())

    async def exchange(self, content: bytes) -> Answer:
        """The answer to the bytes of a request, on a connection of its own."""
        connection = Connection(self.port)
        try:
            return await connection.exchange(content)
        finally:
            await connection.close()


@asynccontextmanager
async def serving(*arguments: str, log: Path) -> AsyncIterator[Service]:
    """Serve at a free port; the log goes to a file."""
    command = [sys.executable, "-m", "seqloom", "serve", *arguments, "--port", "0"]
    with log.open("w") as output:
        process = subprocess.Popen(command, stderr=output, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    try:
        while not (started := re.search(r"serving at http://[\d.]+:(\d+);", log.read_text())):
            if process.poll() is not None:
                raise AssertionError(log.read_text())
            await asyncio.sleep(0.05)
        yield Service(process, int(started[1]))
    finally:
        process.kill()
        process.wait()


def text(draw: random.Random, longest: int = 40) -> str:
    return " ".join(draw.choices(WORDS, k=draw.randint(1, longest)))


def predictions(seed: int, *, longest: int = 40) -> Iterator[Request]:
    """Requests for one text of random length, without end."""
    draw = random.Random(seed)  # noqa: S311  no secret
    while True:
        yield Request(PREDICT, json.dumps({"inputs": [text(draw, longest)]}).encode())


def milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:.1f} ms"


async def check_load(service: Service, options: Any) -> Iterator[Finding]:
    """64 connections: no error, p99 ≤ 10 × p50."""
    await keep_busy(service.port, predictions, connections=8, count=options.warm_up)
    load = await keep_busy(service.port, predictions, connections=64, seconds=options.seconds)
    p50, p99 = load.percentile(50), load.percentile(99)
    figures = (
        f"{len(load.seconds):,} answers in {load.duration:.0f} s ({load.rate:,.0f}/s), {len(load.errors)} errors, "
        f"p50 {milliseconds(p50)}, p99 {milliseconds(p99)} ({p99 / p50:.1f} ×)"
    )
    return iter(
        [
            Finding("64 connections: no error", figures, not load.errors),
            Finding("64 connections: p99 ≤ 10 × p50", f"{p99 / p50:.1f} ×", p99 <= 10 * p50, is_timing=True),
        ]
    )


async def check_memory(service: Service, options: Any) -> Iterator[Finding]:
    """Requests of random lengths: the memory grows by less than 20 MB."""
    long = [lambda number: predictions(number, longest=200), lambda number: predictions(100 + number, longest=200)]
    await keep_busy(service.port, long[0], connections=8, count=options.warm_up)
    before = service.megabytes
    load = await keep_busy(service.port, long[1], connections=8, count=options.requests)
    growth = service.megabytes - before
    measured = f"{growth:+.1f} MB from {before:.0f} MB, {len(load.errors)} errors"
    kept = growth < 20 and not load.errors
    return iter([Finding(f"{options.requests:,} requests: < 20 MB growth", measured, kept)])


async def check_overload(service: Service, options: Any) -> Iterator[Finding]:
    """More inputs than may wait: 503 with Retry-After for some, answers for the others, none after that."""
    draw = random.Random(1)  # noqa: S311  no secret
    body = json.dumps({"inputs": [text(draw, 200) for _ in range(64)]}).encode()
    answers = await asyncio.gather(*(service.ask(Request(PREDICT, body)) for _ in range(40)))
    refused = [answer for answer in answers if answer.status == 503]
    statuses = {answer.status for answer in answers}
    after = await service.ask(next(predictions(1)))
    kept = statuses == {200, 503} and all("retry-after" in answer.headers for answer in refused)
    measured = (
        f"of 40 requests with 64 texts, {len(answers) - len(refused)} answered and {len(refused)} refused "
        f"(statuses {' '.join(map(str, sorted(statuses)))}); then {after.status}"
    )
    return iter([Finding("a full queue: 503 with Retry-After", measured, kept and after.status == 200)])


async def check_bodies(service: Service, options: Any) -> Iterator[Finding]:
    """2 GB are refused unread, announced or in chunks."""
    before, findings = service.megabytes, []
    form = "multipart/form-data; boundary=b"
    start_of_file = '--b\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'
    heads = {
        "JSON": (PREDICT, "application/json", ""),
        "a form": (PREDICT, form, start_of_file),
        "a recording": ("/v1/audio/transcriptions", form, start_of_file),
        "tensors": ("/v2/models/x/infer", "application/json", ""),
    }
    for name, (path, kind, start) in heads.items():
        head = f"POST {path} HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: {kind}\r\n"
        announced = await service.exchange(f"{head}Content-Length: {2 << 30}\r\n\r\n".encode())
        chunk = f"{len(start):x}\r\n{start}\r\n" if start else ""
        sent, chunked = await _send_chunks(service.port, f"{head}Transfer-Encoding: chunked\r\n\r\n{chunk}".encode())
        findings.append(
            Finding(
                f"2 GB as {name}: 4xx unread",
                f"announced: {announced.status} after 0 bytes; in chunks: {chunked} after {sent / MEGABYTE:.0f} MB",
                announced.status in (413, 404) and chunked in ("413", "404") and sent < 50 * MEGABYTE,
            )
        )
    growth = service.megabytes - before
    findings.append(Finding("2 GB bodies: memory", f"{growth:+.1f} MB", growth < 100))
    return iter(findings)


async def _send_chunks(port: int, head: bytes) -> tuple[int, str]:
    """Send up to 2 GB in chunks until the server answers; the bytes sent, and the status."""
    reader, writer = await asyncio.open_connection(HOST, port)
    answer = asyncio.create_task(reader.read(100))
    part, sent = b"10000\r\n" + b"-" * 0x10000 + b"\r\n", 0
    with suppress(ConnectionError):
        writer.write(head)
        while not answer.done() and sent < 2 << 30:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0)
            sent += len(part)
    try:
        status = (await answer).decode("latin-1")[9:12]
    except ConnectionError:
        status = "closed"
    await close(writer)
    return sent, status


def trickle(port: int, count: int) -> list[float]:
    """Open connections that send a byte a second; the seconds until each was closed."""
    head = f"POST {PREDICT} HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: 1000\r\n\r\n".encode()
    beginnings = (b"", b"POST /v1/pre", head, head + b'{"inputs": [')
    opened: dict[socket.socket, float] = {}
    for number in range(count):
        connection = socket.create_connection((HOST, port))
        connection.sendall(beginnings[number % len(beginnings)])
        opened[connection] = time.perf_counter()
    seconds = []
    while opened and time.perf_counter() - min(opened.values()) < 60:
        readable, _, _ = select.select(list(opened), [], [], 1)
        for connection in readable:  # closed: nothing else is sent to them
            seconds.append(time.perf_counter() - opened.pop(connection))
            connection.close()
        for connection in opened if not readable else ():
            with suppress(OSError):
                connection.send(b"a")
    return [*seconds, *(60.0 for _ in opened)]


async def check_slow_clients(service: Service, options: Any) -> Iterator[Finding]:
    """Clients that send a byte a second are closed in 10 s, and others are answered meanwhile."""
    others = asyncio.create_task(keep_busy(service.port, predictions, connections=8, seconds=10))
    slow = await asyncio.to_thread(trickle, service.port, options.slow)
    load = await others
    p99 = load.percentile(99)
    return iter(
        [
            Finding(
                f"{options.slow} slow clients: closed ≤ 10 s",
                f"between {min(slow):.1f} and {max(slow):.1f} s",
                max(slow) <= 10,
                is_timing=True,
            ),
            Finding(
                "others meanwhile: p99 < 1 s",
                f"{len(load.seconds):,} answers, {len(load.errors)} errors, p99 {milliseconds(p99)}",
                p99 < 1 and not load.errors,
                is_timing=True,
            ),
        ]
    )


async def check_hostile_inputs(service: Service, options: Any) -> Iterator[Finding]:
    """Deep and long inputs get a 4xx at once."""
    findings, slowest = [], 0.0
    for name, body in hostile_bodies().items():
        before = service.processor_seconds
        answers = [await service.ask(Request(PREDICT, body)) for _ in range(options.repetitions)]
        seconds = (service.processor_seconds - before) / options.repetitions
        slowest = max(slowest, seconds)
        statuses = {answer.status for answer in answers}
        measured = f"{' '.join(map(str, statuses))}, {milliseconds(seconds)} of processor time"
        findings.append(Finding(f"{name}: 4xx", measured, all(400 <= status < 500 for status in statuses)))
    measured = f"at most {milliseconds(slowest)} of processor time"
    findings.append(Finding("hostile inputs: < 100 ms", measured, slowest < 0.1, is_timing=True))
    return iter(findings)


async def check_access(service: Service, options: Any) -> Iterator[Finding]:
    """Foreign hosts, origins and paths lead nowhere, and answers are inert in a browser."""

    async def statuses(requests: Sequence[Request]) -> list[int]:
        return [(await service.ask(request)).status for request in requests]

    def get(path: str, **headers: str) -> Request:
        return Request(path, method="GET", headers=headers)

    host_statuses = await statuses([get("/v1/models", Host=host) for host in FOREIGN_HOSTS])
    origin_statuses = await statuses([get("/v1/models", Origin=origin) for origin in FOREIGN_ORIGINS])
    paths = await statuses([get(path) for path in OTHER_PATHS])
    script = await service.ask(Request(PREDICT, json.dumps({"inputs": ["<script>alert(1)</script>"]}).encode()))
    inert = (
        script.headers["content-type"] == "application/json"
        and script.headers["x-content-type-options"] == "nosniff"
        and "default-src 'none'" in script.headers["content-security-policy"]
    )
    return iter(
        [
            Finding(
                f"{len(FOREIGN_HOSTS)} foreign Host headers: 403", str(set(host_statuses)), set(host_statuses) <= {403}
            ),
            Finding(
                f"{len(FOREIGN_ORIGINS)} foreign Origins: 403", str(set(origin_statuses)), set(origin_statuses) <= {403}
            ),
            Finding(f"{len(paths)} spellings of other paths: 404", str(set(paths)), set(paths) <= {404}),
            Finding("<script> in an input: inert", script.headers["content-type"], inert and script.status == 200),
        ]
    )


async def check_drain(service: Service, options: Any) -> Iterator[Finding]:
    """SIGTERM: what was asked is answered, and the service ends with exit code 0 within 10 s."""
    draw = random.Random(1)  # noqa: S311  no secret
    bodies = [json.dumps({"inputs": [text(draw, 100) for _ in range(4)]}).encode() for _ in range(24)]
    asked = [asyncio.create_task(service.ask(Request(PREDICT, body))) for body in bodies]
    await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
    service.process.send_signal(signal.SIGTERM)
    started = time.perf_counter()
    answers = await asyncio.gather(*asked)
    code = await asyncio.to_thread(service.process.wait, 60)
    seconds = time.perf_counter() - started
    answered = sum(answer.status == 200 for answer in answers)
    return iter(
        [
            Finding(
                "SIGTERM: answers in progress are sent",
                f"{answered} of {len(answers)} requests answered, exit code {code}",
                answered == len(answers) and code == 0,
            ),
            Finding("SIGTERM: ends ≤ 10 s", f"{seconds:.1f} s", seconds <= 10, is_timing=True),
        ]
    )


def check_refusal_to_start(model: Path) -> Finding:
    """Without a token, the service listens at this machine only."""
    environment = {name: value for name, value in os.environ.items() if name != "SEQLOOM_TOKEN"}
    command = [sys.executable, "-m", "seqloom", "serve", str(model), "--host", "0.0.0.0", "--port", "0"]  # noqa: S104
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, env=environment)
    refused = result.returncode == 1 and "set a token" in result.stderr
    return Finding("no token off loopback: refuses to start", f"exit code {result.returncode}", refused)


CHECKS: tuple[Callable[[Service, Any], Any], ...] = (
    check_access,
    check_hostile_inputs,
    check_bodies,
    check_overload,
    check_load,
    check_memory,
    check_slow_clients,
    check_drain,  # last: it ends the service
)


async def hold(model: Path, options: Any, log: Path) -> AsyncIterator[Finding]:
    """All findings for a model."""
    yield check_refusal_to_start(model)
    async with serving(str(model), log=log) as service:
        for check in CHECKS:
            if check is check_slow_clients and not options.slow:
                continue
            for finding in await check(service, options):
                yield finding


async def findings(model: Path, options: Any, log: Path) -> list[Finding]:
    """The same as a list."""
    return [finding async for finding in hold(model, options, log)]


def default_tagger(folder: Path) -> list[Path]:
    """A tagger of the default size, trained for a moment, as a run and as an exported file."""
    seqloom = [sys.executable, "-m", "seqloom"]
    run, exported = folder / "tagger", folder / "tagger.onnx"
    for command in (
        ["data", "python_tags"],
        ["train", "--task", "tag", "--data", "python_tags", "train.updates=20", "--output", str(run), "--quiet"],
        ["export", str(run), str(exported)],
    ):
        subprocess.run([*seqloom, *command], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return [run, exported]


async def hold_all(models: Sequence[Path], options: Any, folder: Path) -> int:
    """Print the findings; the exit code."""
    broken = 0
    for model in models:
        sys.stdout.write(f"\n{model.name}\n")
        async for finding in hold(model, options, folder / f"{model.name}.log"):
            broken += not finding.kept
            verdict = "kept  " if finding.kept else "BROKEN"
            sys.stdout.write(f"  {verdict} {finding.promise}: {finding.measured}\n")
            sys.stdout.flush()
    sys.stdout.write(f"\n{f'{broken} promises broken' if broken else 'all promises kept'}\n")
    return int(broken > 0)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="scripts/load", description=__doc__)
    parser.add_argument("model", nargs="*", type=Path, help="runs or .onnx files of taggers or classifiers of text")
    parser.add_argument("--seconds", type=float, default=60, help="duration of the load of 64 connections")
    parser.add_argument("--requests", type=int, default=10_000, help="requests for which the memory is watched")
    parser.add_argument("--slow", type=int, default=500, help="clients that send a byte a second")
    parser.add_argument("--warm-up", type=int, default=500, help="requests before the figures")
    parser.add_argument("--repetitions", type=int, default=20, help="requests with each hostile input")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        return asyncio.run(hold_all(options.model or default_tagger(folder), options, folder))


if __name__ == "__main__":
    sys.exit(main())
