"""A real server in a thread, and a plain client for it."""

import http.client
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from starlette.applications import Starlette

from seqloom.model import Model, load
from seqloom.service.app import build_app
from seqloom.service.served_models import ModelStore
from seqloom.service.served_runs import ServedRun
from seqloom.service.server import listen, make_server
from seqloom.service.settings import ServiceSettings

KEPT = Path(__file__).parent.parent / "artefacts" / "format_2"


@dataclass(frozen=True)
class Answer:
    """A response."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def message(self) -> str:
        error = self.json()["error"]
        return str(error if isinstance(error, str) else error["message"])


@dataclass(frozen=True)
class Client:
    """Sends requests to a server on this machine."""

    port: int
    store: ModelStore = field(default_factory=lambda: ModelStore([]))

    def get(self, path: str, **headers: str) -> Answer:
        return self.send("GET", path, b"", headers)

    def post(self, path: str, body: Any, **headers: str) -> Answer:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.send("POST", path, content, headers)

    def post_file(self, path: str, name: str, content: bytes, **fields: str) -> Answer:
        boundary = "seqloom-boundary"
        parts = [
            f'--{boundary}\r\nContent-Disposition: form-data; name="{field}"\r\n\r\n{value}\r\n'.encode()
            for field, value in fields.items()
        ]
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'.encode()
        body = b"".join([*parts, head, content, f"\r\n--{boundary}--\r\n".encode()])
        return self.send("POST", path, body, {"Content-Type": f"multipart/form-data; boundary={boundary}"})

    def send(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(
                method, path, body or None, {name.replace("_", "-"): text for name, text in headers.items()}
            )
            response = connection.getresponse()
            return Answer(
                response.status, {name.lower(): text for name, text in response.getheaders()}, response.read()
            )
        finally:
            connection.close()


@contextmanager
def serving(
    runs: Sequence[Path],
    settings: ServiceSettings | None = None,
    *,
    wrap: Callable[[Model], Model] = lambda model: model,
) -> Iterator[Client]:
    """Serve runs at a free port; ``wrap`` changes the models."""
    settings = replace(settings or ServiceSettings(), port=0)
    store = ModelStore([ServedRun(path.name, path, lambda path: wrap(load(path)), settings) for path in runs])
    with running(build_app(store, settings), settings) as port:
        yield Client(port, store)


@contextmanager
def running(app: Starlette, settings: ServiceSettings) -> Iterator[int]:
    """Run an application in a thread; its port."""
    listener = listen(settings)
    server = make_server(app, settings)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(30)
        assert not thread.is_alive()
