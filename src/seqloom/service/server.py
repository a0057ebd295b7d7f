"""Runs the application on uvicorn, which has no limit for slow requests of its own."""

import asyncio
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from seqloom.service.settings import ServiceSettings

BACKLOG = 2048  # connections that wait to be accepted


def timed_protocol(seconds: float) -> type[H11Protocol]:
    """An HTTP protocol that closes a connection whose request has not arrived completely in this time."""

    class TimedProtocol(H11Protocol):
        """Closes connections of clients that send a request too slowly."""

        _deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
            super().connection_made(transport)
            self._start_deadline()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            cycle: Any = self.cycle  # None before the first request
            if cycle and not cycle.response_complete and not cycle.more_body:  # the answer may take its time
                self._stop_deadline()
            elif self._deadline is None:
                self._start_deadline()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._stop_deadline()  # until the next request, the limit for idle connections applies

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_deadline()
            super().connection_lost(exc)

        def handle_websocket_upgrade(self, event: Any) -> None:
            self._stop_deadline()
            super().handle_websocket_upgrade(event)

        def _start_deadline(self) -> None:
            self._deadline = self.loop.call_later(seconds, self._close)

        def _stop_deadline(self) -> None:
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None

        def _close(self) -> None:
            if not self.transport.is_closing():
                self.transport.abort()

    return TimedProtocol


class Server(uvicorn.Server):
    """Ends after SIGTERM with the answers in progress, and exit code 0; after Ctrl-C with 130."""

    interrupted = False

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        handled = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in handled.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.interrupted |= sig == signal.SIGINT
        super().handle_exit(sig, frame)


def listen(settings: ServiceSettings) -> socket.socket:
    """A socket at the address of the service; OSError if it is taken."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # asyncio sends small answers without delay (TCP_NODELAY) only where the protocol of a socket is explicit.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((settings.host.strip("[]"), settings.port))
        listener.listen(BACKLOG)  # from now on, clients wait instead of being refused
    except OSError as error:
        listener.close()
        raise OSError(error.errno, error.strerror, f"{settings.host}:{settings.port}") from None
    return listener


def make_server(app: Starlette, settings: ServiceSettings) -> Server:
    """A server with the limits of the settings."""
    config = uvicorn.Config(
        app,
        http=timed_protocol(settings.receive_timeout),
        ws="websockets-sansio",
        ws_max_size=1 << 20,
        loop="asyncio",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        limit_concurrency=settings.max_connections,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=int(settings.drain_timeout),
    )
    return Server(config)


def address(listener: socket.socket) -> str:
    """The URL of a listening socket."""
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"
