import asyncio
import socket
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest
from starlette.types import Message, Receive, Scope, Send
from tests.service.hostile_requests import FOREIGN_HOSTS, OTHER_PATHS
from tests.service.running import KEPT, Client, serving

from seqloom.service.guard import Guard
from seqloom.service.server import listen
from seqloom.service.settings import ServiceSettings, is_loopback
from seqloom.service.telemetry import Telemetry

TOKEN = "a-token-for-tests-only"  # noqa: S105


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    settings = ServiceSettings(
        token=TOKEN, max_json=1000, max_body=5000, receive_timeout=0.5, allow_origins=("https://a.b",)
    )
    with serving([KEPT / "tag"], settings) as running:
        yield running


def headers(**changes: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {TOKEN}", **changes}


@pytest.mark.parametrize("host", FOREIGN_HOSTS)
def test_foreign_hosts_are_refused(client: Client, host: str) -> None:
    assert client.get("/v1/models", **headers(Host=host)).status in (400, 403)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8000", "[::1]:80", "LOCALHOST:1"])
def test_names_of_this_machine_are_allowed(client: Client, host: str) -> None:
    assert client.get("/v1/models", **headers(Host=host)).status == 200


def test_pages_of_other_sites_are_refused(client: Client) -> None:
    own = f"http://127.0.0.1:{client.port}"
    for origin, status in ((own, 200), ("https://a.b", 200), ("https://evil.example", 403), ("null", 403)):
        assert client.get("/v1/models", **headers(Origin=origin)).status == status


@pytest.mark.parametrize(
    "given", ["", "Bearer", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"Basic {TOKEN}", "Bearer é"]
)
def test_the_token_is_required(client: Client, given: str) -> None:
    answer = client.send("GET", "/v1/models", b"", {"Authorization": given.encode().decode("latin-1")} if given else {})
    assert answer.status == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert TOKEN not in answer.body.decode()


def test_health_needs_no_token(client: Client) -> None:
    assert client.get("/v2/health/ready").status == 200
    assert client.get("/metrics").status == 401


def test_paths_lead_nowhere(client: Client) -> None:
    for path in OTHER_PATHS:
        assert client.get(path, **headers()).status == 404


def test_answers_tell_browsers_to_do_nothing_with_them(client: Client) -> None:
    for path in ("/v1/models", "/nothing", "/v2/health/live"):
        answer = client.get(path, **headers())
        assert answer.headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_large_bodies_are_refused_before_they_are_read(client: Client) -> None:
    with socket.create_connection(("127.0.0.1", client.port), timeout=20) as connection:
        head = f"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
        connection.sendall(f"{head}Content-Length: {2 << 30}\r\n\r\n".encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 413")
    with socket.create_connection(("127.0.0.1", client.port), timeout=20) as connection:
        connection.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n1000\r\n{'a' * 4096}\r\n".encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize(
    "beginning",
    [b"", b"POST /v1/predict HT", b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n12"],
)
def test_slow_clients_are_closed(client: Client, beginning: bytes) -> None:
    with socket.create_connection(("127.0.0.1", client.port), timeout=20) as connection:
        connection.sendall(beginning.replace(b"\r\n\r\n", f"\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()))
        with suppress(ConnectionResetError):
            assert connection.recv(100) == b""
    assert client.get("/v2/health/live").status == 200


def test_a_client_that_goes_is_no_error(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    head = f"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 9\r\n\r\n"
    with socket.create_connection(("127.0.0.1", client.port), timeout=20) as connection:
        connection.sendall(head.encode() + b"1")
        connection.shutdown(socket.SHUT_WR)
        with suppress(ConnectionResetError):
            assert connection.recv(100) in (b"", b"HTTP/1.1 400 Bad Request")
    metrics = ""
    for _ in range(1000):  # the server learns of it after us
        metrics = client.get("/metrics", **headers()).body.decode()
        if 'route="/v1/predict",status="499"' in metrics:
            break
    assert 'route="/v1/predict",status="499"' in metrics
    assert 'status="500"' not in metrics
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_a_client_that_trickles_is_closed(client: Client) -> None:
    closed = False
    with socket.create_connection(("127.0.0.1", client.port), timeout=20) as connection:
        connection.settimeout(0.1)
        end = time.monotonic() + 10
        while not closed and time.monotonic() < end:
            try:
                connection.sendall(b"G")
                closed = connection.recv(1) == b""
            except TimeoutError:
                continue
            except OSError:
                closed = True
    assert closed


def test_a_service_for_other_machines_needs_a_token() -> None:
    for host in ("0.0.0.0", "::", "192.0.2.1", "example.org"):  # noqa: S104  nothing listens
        with pytest.raises(ValueError, match="can be reached from other machines: set a token"):
            ServiceSettings(host=host).check()
        ServiceSettings(host=host, token=TOKEN).check()
    ServiceSettings().check()
    with pytest.raises(ValueError, match="at least 16"):
        ServiceSettings(token=TOKEN[:15]).check()


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("[::1]", True),
        ("a.localhost", True),
        ("localhost.evil", False),
        ("0.0.0.0", False),  # noqa: S104
        ("10.0.0.1", False),
        ("127.0.0.1.evil", False),
        ("", False),
    ],
)
def test_loopback_addresses(host: str, *, expected: bool) -> None:
    assert is_loopback(host) == expected


def test_a_request_that_is_cancelled_gets_an_answer() -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def ask() -> None:
        forever = asyncio.Event()

        async def computes(scope: Scope, receive: Receive, send: Send) -> None:
            await forever.wait()

        guard = Guard(computes, settings=ServiceSettings(), telemetry=Telemetry())
        scope = {"type": "http", "method": "GET", "path": "/", "headers": [(b"host", b"localhost")]}
        request = asyncio.create_task(guard(scope, asyncio.Queue[Message]().get, send))
        await asyncio.sleep(0)  # it begins
        request.cancel()
        await request

    asyncio.run(ask())
    assert sent[0]["status"] == 503
    assert b"stops" in sent[1]["body"]


def test_answers_are_sent_without_delay() -> None:
    listener = listen(ServiceSettings(port=0))
    with listener:
        assert listener.proto == socket.IPPROTO_TCP  # asyncio sets TCP_NODELAY for these only
