"""What the page calls: a description of this server, and one decode told step by step in the trace's own lines."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator
from typing import Any

from fastapi import APIRouter
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool

from unmask import __version__
from unmask.serve.calls import ERRORS
from unmask.serve.errors import ApiError
from unmask.serve.schemas import WatchRequest
from unmask.serve.service import Pending, Service
from unmask.serve.streaming import Told
from unmask.trace import FORMAT, VERSION, Step
from unmask.view import REASONS, ROUTES

log = logging.getLogger("unmask.serve")
NDJSON = "application/x-ndjson"


def line(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False) + "\n"


class Telling:
    """The lines of one decode: a header, then per step the pieces that are new and the step, then the final
    header (with all pieces) and the end. Header, steps and end are the trace file, byte for byte."""

    def __init__(self, service: Service, pending: Pending) -> None:
        self.service, self.pending, self.task = service, pending, pending.job.tasks[0]
        self.known: set[int] = set()

    async def lines(self) -> AsyncGenerator[str, None]:
        try:
            header = self.task.row.trace.header
            words = self.service.model.tokenizer.unknown_words(str(header["prompt"]))
            if words:
                yield line({"unknown_words": words[:8]})
            yield line({"format": FORMAT, "version": VERSION, **header})
            told = 0
            while True:
                finished = self.pending.job.finished  # looked at before the steps: none can come after it
                while told < self.task.steps:
                    yield self.step(self.task.row.trace.steps[told])
                    told += 1
                if self.pending.job.error:
                    raise self.pending.job.error
                if finished:
                    break
                await self.pending.news()
            result = self.task.result
            assert result is not None
            trace = self.task.row.trace
            if result.warnings:
                yield line({"warnings": [warning.to_json() for warning in result.warnings]})
            yield line({"format": FORMAT, "version": VERSION, **trace.header})
            yield line({"end": trace.end})
        except ApiError as error:
            yield line(error.body)

    def step(self, step: Step) -> str:
        fresh = set(step.token.tolist()) - self.known
        self.known |= fresh
        tokenizer = self.service.model.tokenizer
        pieces = line({"pieces": {str(token): tokenizer.piece(token) for token in sorted(fresh)}}) if fresh else ""
        return pieces + line({"step": step.to_json()})


def router(service: Service) -> APIRouter:
    api = APIRouter(prefix="/api")
    described = service.catalogue.describe(service.model.spec.canvas_length)

    @api.get("/page", tags=["page"])
    async def page() -> dict[str, Any]:
        """Everything the page needs to draw itself."""
        model = service.model
        return {
            "model": model.name,
            "version": __version__,
            "decoder": service.settings.decoder,
            "canvas_length": model.spec.canvas_length,
            "max_canvas": min(service.limits.canvas, model.spec.context - 1),
            "max_prompt": service.limits.prompt_chars,
            "decoders": described,
            "examples": service.examples,
            "routes": ROUTES,
            "reasons": REASONS,
        }

    @api.post("/watch", responses={**ERRORS, 200: {"content": {NDJSON: {}}}}, tags=["page"], response_class=Response)
    async def watch(body: WatchRequest) -> Response:
        rows = await run_in_threadpool(
            service.rows, [body.prompt], body.decoder, body.options, seed=body.seed, canvas_length=body.canvas_length
        )
        if service.settings.log_prompts:
            log.info("prompts: %r", [body.prompt])
        telling = Telling(service, service.submit(rows, None))
        return Told(telling.lines(), telling.pending.close, NDJSON)

    return api
