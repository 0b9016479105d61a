"""The application, put together: service, routes, errors, guard."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import APIRouter, FastAPI
from fastapi.responses import JSONResponse, PlainTextResponse, Response

from unmask import __version__
from unmask.models import Model
from unmask.serve import assets, completions, errors, watching
from unmask.serve.guard import Guard
from unmask.serve.responses import Health
from unmask.serve.service import Service, Settings


def create_app(model: Model, settings: Settings | None = None) -> FastAPI:
    service = Service(model, settings or Settings())

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.scheduler.start()
        yield
        service.scheduler.close()

    # No interactive documentation: its pages load scripts from elsewhere. /openapi.json is the document.
    app = FastAPI(
        title="unmask", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None,
        redirect_slashes=False,  # a redirect would be built from the Host header
        description="Decoding of masked diffusion language models, OpenAI-compatible.",
    )  # fmt: skip
    app.state.service = service
    errors.install(app)
    app.include_router(completions.router(service))
    app.include_router(watching.router(service))
    app.include_router(assets.router())
    app.include_router(operations(service))
    app.add_middleware(
        Guard, limits=service.limits, metrics=service.metrics, api_key=service.settings.api_key,
        hosts=service.settings.hosts,
    )  # fmt: skip
    return app


def operations(service: Service) -> APIRouter:
    api = APIRouter(tags=["operations"])

    @api.get("/health", response_model=Health, responses={503: {"model": Health}})
    async def health() -> Response:
        """200 while requests are taken; 503 while shutting down, or if the scheduler's thread has died."""
        status = service.scheduler.status
        body = Health(status=status, model=service.model.name, version=__version__)
        return JSONResponse(body.model_dump(), 200 if status == "ok" else 503)

    @api.get("/metrics", response_class=PlainTextResponse)
    async def metrics() -> Response:
        """Counters in Prometheus' text format."""
        return Response(service.metrics.render(), media_type="text/plain; version=0.0.4; charset=utf-8")

    return api
