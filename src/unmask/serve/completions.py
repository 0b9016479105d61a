"""/v1: what an OpenAI client calls."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import fastapi
from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import BaseModel

from unmask.api import Prompt
from unmask.serve.calls import ERRORS, STREAMED, Call
from unmask.serve.errors import ApiError
from unmask.serve.responses import ChatCompletion, ModelCard, ModelList, TextCompletion
from unmask.serve.schemas import ChatRequest, CompletionRequest
from unmask.serve.service import Service
from unmask.serve.streaming import Told


async def until_gone(request: fastapi.Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def respond(http: fastapi.Request, call: Call, stream: bool, shape: type[BaseModel]) -> Response:
    if stream:
        return Told(call.stream(), call.pending.close, "text/event-stream", {"Cache-Control": "no-cache"})
    gone = asyncio.ensure_future(until_gone(http))
    done = asyncio.ensure_future(call.pending.finished())
    try:
        await asyncio.wait((gone, done), return_when=asyncio.FIRST_COMPLETED)
        if not done.done():
            return Response(status_code=499)  # nobody is there to read it
        done.result()
        answer = shape.model_validate(call.whole())
        return Response(answer.model_dump_json(), media_type="application/json")
    finally:
        call.pending.close()
        for task in (gone, done):
            task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await task


def router(service: Service) -> APIRouter:
    api, described = APIRouter(prefix="/v1"), service.catalogue.describe(service.model.spec.canvas_length)

    @api.get("/models", tags=["models"])
    async def models() -> ModelList:
        return ModelList(data=[ModelCard(id=service.model.name, created=service.started)])

    @api.get("/models/{model:path}", responses=ERRORS, tags=["models"])
    async def model_card(model: str) -> ModelCard:
        if model != service.model.name:
            raise ApiError(404, "no such model", "model_not_found", "model")
        return ModelCard(id=service.model.name, created=service.started)

    @api.get("/decoders", tags=["models"])
    async def decoders() -> list[dict[str, Any]]:
        """Decoders with their options: names, types, defaults, and what they mean."""
        return described

    @api.post("/chat/completions", responses=STREAMED, response_model=ChatCompletion, tags=["completions"])
    async def chat(body: ChatRequest, request: fastapi.Request) -> Response:
        call = await Call.open(service, body, [body.conversation()], chat=True)
        return await respond(request, call, bool(body.stream), ChatCompletion)

    @api.post("/completions", responses=STREAMED, response_model=TextCompletion, tags=["completions"])
    async def complete(body: CompletionRequest, request: fastapi.Request) -> Response:
        prompts: list[Prompt] = list(body.prompt) if isinstance(body.prompt, list) else [body.prompt]
        call = await Call.open(service, body, prompts, chat=False)
        return await respond(request, call, bool(body.stream), TextCompletion)

    return api
