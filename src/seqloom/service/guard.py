"""What stands before every request: who may ask, how much, how fast, and what a browser may do with the answer."""

import asyncio
import hmac
import json
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from seqloom.service.settings import ServiceSettings, is_loopback
from seqloom.service.telemetry import Telemetry

logger = logging.getLogger("seqloom.service")

OPEN_PATHS = ("/v2/health/live", "/v2/health/ready")
"""Paths that need no token, so that an orchestrator can ask whether the service is alive."""
SECURITY_HEADERS = {
    b"content-security-policy": b"default-src 'none'; frame-ancestors 'none'",
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-resource-policy": b"same-origin",
    b"cache-control": b"no-store",
}


class Guard:
    """Refuses foreign hosts, origins and clients without the token; measures and logs every request."""

    def __init__(self, app: ASGIApp, *, settings: ServiceSettings, telemetry: Telemetry) -> None:
        self.app, self.settings, self.telemetry = app, settings, telemetry

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        started = time.perf_counter()
        refusal = self._refusal(scope)
        status = refusal[0] if refusal else 500
        started_answer = False

        async def watched(message: Message) -> None:
            nonlocal status, started_answer
            if message["type"] == "http.response.start":
                status, started_answer = message["status"], True
                given = {name for name, _ in message["headers"]}
                message["headers"] = [
                    *message["headers"],
                    *((name, value) for name, value in SECURITY_HEADERS.items() if name not in given),
                ]
            elif message["type"] == "websocket.accept":
                status = 101
            await asyncio.wait_for(send(message), self.settings.send_timeout)

        try:
            if refusal is None:
                await self.app(scope, receive, watched)
            elif scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008, "reason": refusal[1]})
            else:
                await _answer(watched, *refusal)
        except asyncio.CancelledError:  # the time to drain is over
            if started_answer or scope["type"] == "websocket":
                raise
            await _answer(watched, 503, "the service stops; try again later")
        except (TimeoutError, ClientDisconnect):
            status = 499  # the client did not take the answer, or went before its request was complete
        finally:
            self._record(scope, status, time.perf_counter() - started)

    def _record(self, scope: Scope, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", "") or "other"
        method = scope.get("method", "WEBSOCKET")
        self.telemetry.count_request(route=route, method=method, status=status, seconds=seconds)
        fields = {
            "method": method,
            "path": scope["path"][:200],
            "status": status,
            "milliseconds": round(1000 * seconds, 1),
            "client": (scope.get("client") or ("",))[0],
        }
        logger.info("request", extra={"fields": fields})

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        """Status and reason of a request that is not answered; None: it is."""
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if not self._is_allowed_host(host):
            return 403, "this Host is not served here; --allow-host adds a name"
        origin = headers.get("origin", "")
        if origin and not self._is_allowed_origin(origin, host):
            return 403, "pages of this Origin may not ask; --allow-origin adds one"
        if self.settings.token and scope["path"] not in OPEN_PATHS:
            given = headers.get("authorization", "").removeprefix("Bearer ").encode()
            if not hmac.compare_digest(given, self.settings.token.encode()):
                return 401, "expected the header Authorization: Bearer TOKEN with the token of this service"
        return None

    def _is_allowed_host(self, host: str) -> bool:
        name = urlsplit(f"//{host}").hostname or "" if _is_plain(host) else ""
        allowed = {self.settings.host.strip("[]").lower(), *(each.lower() for each in self.settings.allow_hosts)}
        if name in allowed or (self.settings.is_local and is_loopback(name)):
            return True
        # A service for other machines needs a token; its names are known only to its network.
        return not self.settings.is_local and not self.settings.allow_hosts and bool(name)

    def _is_allowed_origin(self, origin: str, host: str) -> bool:
        return origin in self.settings.allow_origins or urlsplit(origin).netloc == host


def _is_plain(host: str) -> bool:
    return host.isascii() and host.isprintable() and not set(host) & set("/\\@?# ")


async def _answer(send: Callable[[Message], Awaitable[None]], status: int, message: str) -> None:
    body = json.dumps(error_body(message, status)).encode()
    headers: list[tuple[bytes, bytes]] = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),  # the rest of the request is not read
    ]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def error_body(message: str, status: int) -> dict[str, Any]:
    """An error as the OpenAI API and its clients write it."""
    kinds = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 503: "overloaded_error"}
    kind = kinds.get(status, "server_error" if status >= 500 else "invalid_request_error")
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}
