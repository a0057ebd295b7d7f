"""A client that keeps many connections to an HTTP server on this machine busy, and measures its answers."""

import asyncio
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

HOST = "127.0.0.1"


class Answer(NamedTuple):
    """A response, and the seconds from its request to its last byte."""

    status: int
    headers: dict[str, str]
    body: bytes
    seconds: float

    def json(self) -> Any:
        return json.loads(self.body)


class Request(NamedTuple):
    """A request as it is sent."""

    path: str
    body: bytes = b""
    method: str = "POST"
    headers: Mapping[str, str] = {}

    def encode(self) -> bytes:
        headers = {"Host": HOST, **self.headers}
        if self.method == "POST":
            headers = {"Content-Type": "application/json", "Content-Length": str(len(self.body)), **headers}
        lines = [f"{self.method} {self.path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        return ("\r\n".join(lines) + "\r\n\r\n").encode() + self.body


class Connection:
    """A connection that is kept open from one request to the next."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def ask(self, request: Request) -> Answer:
        """Send a request and read its answer; ConnectionError if the server closes the connection."""
        return await self.exchange(request.encode())

    async def exchange(self, content: bytes) -> Answer:
        """The same for the bytes of a request. What a server refuses, it may leave unread."""
        if self._writer is None:
            self._reader, self._writer = await asyncio.open_connection(HOST, self.port, limit=1 << 26)
        started = time.perf_counter()
        with suppress(ConnectionError):  # the answer may have been sent before the server closed
            self._writer.write(content)
            await self._writer.drain()
        status, headers, body = await self._read()
        answer = Answer(status, headers, body, time.perf_counter() - started)
        if headers.get("connection") == "close":
            await self.close()
        return answer

    async def _read(self) -> tuple[int, dict[str, str], bytes]:
        assert self._reader is not None  # noqa: S101  opened by exchange
        try:
            head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = {name.lower(): text.strip() for name, _, text in (line.partition(":") for line in head[1:-2])}
            body = await self._reader.readexactly(int(headers.get("content-length", 0)))
        except asyncio.IncompleteReadError:
            raise ConnectionError("the server closed the connection before its answer") from None
        return int(head[0].split()[1]), headers, body

    async def close(self) -> None:
        if self._writer is not None:
            await close(self._writer)
        self._reader = self._writer = None


async def close(writer: asyncio.StreamWriter) -> None:
    """Close a connection that the server may have closed already."""
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


@dataclass
class Load:
    """What came of many requests."""

    seconds: list[float] = field(default_factory=list)  # of each answer with status 200
    errors: list[str] = field(default_factory=list)  # other answers, and connections that failed
    duration: float = 0.0

    def percentile(self, percent: float) -> float:
        """Seconds within which this part of the answers arrived."""
        ordered = sorted(self.seconds)
        return ordered[min(int(len(ordered) * percent / 100), len(ordered) - 1)]

    @property
    def rate(self) -> float:
        """Answers per second."""
        return len(self.seconds) / self.duration


async def keep_busy(
    port: int,
    requests: Callable[[int], Iterator[Request]],  # those of a connection, by its number
    *,
    connections: int,
    seconds: float = float("inf"),  # after which no further request is sent
    count: int = 1 << 62,  # requests after which the load ends
) -> Load:
    """Send requests over several connections, on each the next one after the answer to the last one."""
    load = Load()
    started = time.perf_counter()
    sent = 0

    async def client(number: int) -> None:
        nonlocal sent
        connection = Connection(port)
        for request in requests(number):
            if sent >= count or time.perf_counter() - started >= seconds:
                break
            sent += 1
            try:
                answer = await connection.ask(request)
            except OSError as error:
                load.errors.append(str(error))
                await connection.close()
                continue
            if answer.status == 200:
                load.seconds.append(answer.seconds)
            else:
                load.errors.append(f"{answer.status}: {answer.body[:200].decode(errors='replace')}")
        await connection.close()

    await asyncio.gather(*(client(number) for number in range(connections)))
    load.duration = time.perf_counter() - started
    return load
