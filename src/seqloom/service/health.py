"""Whether the service is alive, and what it has counted."""

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse

from seqloom import __version__
from seqloom.service.requests import find_version
from seqloom.service.served_models import ModelStore


async def live(request: Request) -> JSONResponse:  # noqa: ARG001  the signature of a route
    return JSONResponse({"live": True})


async def ready(request: Request) -> JSONResponse:
    draining = request.app.state.draining
    return JSONResponse({"ready": not draining}, status_code=503 if draining else 200)


async def model_ready(request: Request) -> JSONResponse:
    model = find_version(request)
    return JSONResponse({"name": model.name, "ready": True})


async def metadata(request: Request) -> JSONResponse:  # noqa: ARG001  the signature of a route
    return JSONResponse({"name": "seqloom", "version": __version__, "extensions": ["binary_tensor_data"]})


async def metrics(request: Request) -> PlainTextResponse:
    store: ModelStore = request.app.state.store
    text = request.app.state.telemetry.text(
        {name: model.worker.waiting for name, model in store.models.items()},
        {name: model.current.version for name, model in store.models.items()},
    )
    return PlainTextResponse(text, media_type="text/plain; version=0.0.4; charset=utf-8")
