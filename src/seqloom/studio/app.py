"""The application of the studio: its pages, the data behind them, and who may see them."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.body_limit import RequestBodyLimitMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from seqloom.service.guard import Guard
from seqloom.service.requests import answer_error
from seqloom.service.settings import ServiceSettings
from seqloom.service.telemetry import Telemetry
from seqloom.service.worker import Overloaded
from seqloom.studio import (
    answer_pages,
    compare_pages,
    generation_pages,
    insight_pages,
    model_pages,
    run_pages,
    state_pages,
)
from seqloom.studio.catalog import Catalog
from seqloom.studio.custom_layers import CustomLayers
from seqloom.studio.dev_data import Cache

PAGES = ("/", "/run", "/compare", "/data", "/try", "/inside", "/doctor", "/lab")
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "media-src 'self' blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""What a page may load: only what comes from this application, and nothing that is written into a page."""


def build_app(folder: Path, settings: ServiceSettings, layers: Sequence[str] = ()) -> Starlette:
    """The studio for the runs below a folder, some of them with custom layers, which are given as module:name."""
    static = _read_static()

    async def show_page(request: Request) -> Response:  # noqa: ARG001  the signature of a route
        return _file(static, "index.html")

    async def show_file(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in static:
            raise HTTPException(404, "there is no such file")
        return _file(static, name)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        app.state.models = model_pages.OpenModels(settings, app.state.layers)
        app.state.examining = asyncio.Lock()
        yield
        await app.state.models.close()

    app = Starlette(
        routes=[
            *(Route(path, show_page) for path in PAGES),
            Route("/static/{name:path}", show_file),
            Route("/api/runs", run_pages.list_runs),
            Route("/api/run", run_pages.show_run),
            Route("/api/watch", run_pages.watch),
            Route("/api/picture", run_pages.show_picture),
            Route("/api/note", run_pages.keep_note, methods=["POST"]),
            Route("/api/stop", run_pages.stop, methods=["POST"]),
            Route("/api/resume", run_pages.resume, methods=["POST"]),
            Route("/api/model", model_pages.describe_model),
            Route("/api/answers", answer_pages.list_answers),
            Route("/api/predict", model_pages.predict, methods=["POST"]),
            Route("/api/generate", generation_pages.generate, methods=["POST"]),
            Route("/api/media", model_pages.show_media, methods=["POST"]),
            Route("/api/thumbnail", model_pages.show_thumbnail),
            Route("/api/inside", model_pages.inside, methods=["POST"]),
            Route("/api/similar", state_pages.find_similar, methods=["POST"]),
            Route("/api/unit", state_pages.show_unit, methods=["POST"]),
            Route("/api/reach", state_pages.show_reach, methods=["POST"]),
            Route("/api/disagreements", compare_pages.disagreements, methods=["POST"]),
            Route("/api/doctor", insight_pages.examine, methods=["POST"]),
            Route("/api/lab", insight_pages.list_experiments),
            Route("/api/lab/run", insight_pages.run_experiment, methods=["POST"]),
            Route("/api/lab/figure", insight_pages.show_figure),
        ],
        middleware=[
            Middleware(Guard, settings=settings, telemetry=Telemetry()),
            Middleware(RequestBodyLimitMiddleware, max_body_size=settings.max_body),
        ],
        exception_handlers=dict.fromkeys((HTTPException, Overloaded, ValueError, TypeError, Exception), answer_error),
        lifespan=lifespan,
    )
    app.state.layers = CustomLayers(layers)
    app.state.catalog, app.state.settings, app.state.lab_results = Catalog(folder), settings, {}
    app.state.dev_data, app.state.dev_states, app.state.predictions = Cache(), Cache(), Cache()
    return app


def _read_static() -> dict[str, bytes]:
    """The files of the application by name."""
    root = files("seqloom.studio") / "static"
    contents: dict[str, bytes] = {}
    folders = [("", root)]
    while folders:
        prefix, folder = folders.pop()
        for entry in folder.iterdir():
            if entry.is_dir():
                folders.append((f"{prefix}{entry.name}/", entry))
            elif Path(entry.name).suffix in TYPES:
                contents[f"{prefix}{entry.name}"] = entry.read_bytes()
    return contents


def _file(static: dict[str, bytes], name: str) -> Response:
    headers = {"content-security-policy": POLICY, "cache-control": "no-cache"}
    return Response(static[name], media_type=TYPES[Path(name).suffix], headers=headers)
