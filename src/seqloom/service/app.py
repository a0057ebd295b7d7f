"""The application: routes, limits and what they share."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.body_limit import RequestBodyLimitMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route, WebSocketRoute

from seqloom.service import audio, completions, health, inference_protocol, openapi, predictions
from seqloom.service.guard import Guard
from seqloom.service.requests import answer_error
from seqloom.service.served_models import ModelStore
from seqloom.service.settings import ServiceSettings
from seqloom.service.telemetry import Telemetry
from seqloom.service.worker import Overloaded


def build_app(store: ModelStore, settings: ServiceSettings) -> Starlette:
    """The service of some models as an ASGI application."""
    telemetry = Telemetry()
    for name, model in store.models.items():
        model.worker.batch_sizes = partial(telemetry.batches.observe, model=name)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        working = asyncio.create_task(store.run(reload_seconds=settings.reload_seconds))
        yield
        app.state.draining = True
        working.cancel()
        with suppress(asyncio.CancelledError):
            await working

    app = Starlette(
        routes=[
            Route("/openapi.json", _openapi),
            Route("/v1/models", predictions.list_models),
            Route("/v1/models/{model}", predictions.describe_model),
            Route("/v1/predict", predictions.predict, methods=["POST"]),
            Route("/v1/explain", predictions.explain, methods=["POST"]),
            Route("/v1/completions", completions.completions, methods=["POST"]),
            Route("/v1/audio/transcriptions", audio.transcriptions, methods=["POST"]),
            WebSocketRoute("/v1/audio/stream", audio.live),
            Route("/v2", health.metadata),
            Route("/v2/health/live", health.live),
            Route("/v2/health/ready", health.ready),
            *(
                route
                for path in ("/v2/models/{model}", "/v2/models/{model}/versions/{version}")
                for route in (
                    Route(path, inference_protocol.model_metadata),
                    Route(f"{path}/ready", health.model_ready),
                    Route(f"{path}/infer", inference_protocol.infer, methods=["POST"]),
                )
            ),
            Route("/metrics", health.metrics),
        ],
        middleware=[
            Middleware(Guard, settings=settings, telemetry=telemetry),
            Middleware(RequestBodyLimitMiddleware, max_body_size=settings.max_body),
        ],
        exception_handlers=dict.fromkeys((HTTPException, Overloaded, ValueError, TypeError, Exception), answer_error),
        lifespan=lifespan,
    )
    app.state.store, app.state.settings, app.state.telemetry = store, settings, telemetry
    app.state.draining, app.state.streams = False, 0
    return app


async def _openapi(request: Request) -> JSONResponse:  # noqa: ARG001  the signature of a route
    return JSONResponse(openapi.describe())
