"""One request to /v1 on its way: how it is opened, and how its answers are cut and worded."""

from __future__ import annotations

import json
import logging
import re
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from typing import Any

from starlette.concurrency import run_in_threadpool

from unmask.api import Prompt
from unmask.serve.answers import Answer, Cut, Stream
from unmask.serve.errors import ApiError, ErrorBody, invalid
from unmask.serve.provisional import Beyond
from unmask.serve.scheduler import Task
from unmask.serve.schemas import Request
from unmask.serve.service import Pending, Service

log = logging.getLogger("unmask.serve")
KEEP_ALIVE = 10.0  # seconds without news after which a comment is sent, so that proxies keep the line open
ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorBody, "description": text}
    for status, text in {
        "4XX": "The request is at fault, or the queue is full (429, with Retry-After).",
        "5XX": "The decode failed, ran out of time (504), or the server is shutting down (503).",
    }.items()
}


# With `stream` the same 200 is a stream of events.
STREAMED: dict[int | str, dict[str, Any]] = {**ERRORS, 200: {"content": {"text/event-stream": {}}}}


@dataclass(frozen=True)
class Call:
    """One request on its way: how its answers are cut and worded."""

    service: Service
    pending: Pending
    cut: Cut
    chat: bool
    id: str
    created: int
    n: int = 1  # answers per prompt
    usage: bool = False
    provisional: bool = False

    @classmethod
    async def open(cls, service: Service, request: Request, prompts: list[Prompt], chat: bool) -> Call:
        """Everything that can be refused is refused here, before the first byte of an answer."""
        if request.model != service.model.name:
            message = f"model {request.model!r} is not served here; {service.model.name!r} is"
            raise ApiError(404, message, "model_not_found", "model")
        options = with_sampling(service, request)
        limits = [request.max_tokens, getattr(request, "max_completion_tokens", None)]
        cut = Cut(service.model.tokenizer, min((x for x in limits if x), default=None), request.stops)
        if sum(map(len, cut.stop)) > 1024:
            raise invalid("stop sequences are at most 1024 characters together", "stop")
        n = request.n or 1
        rows = await run_in_threadpool(
            service.rows, prompts, request.decoder, options, n=n, seed=(request.seed or 0) % 2**63,
            canvas_length=request.canvas_length, raw=not chat,
        )  # fmt: skip
        if service.settings.log_prompts:
            log.info("prompts: %r", prompts)
        early = request.early_stop is not False
        pending = service.submit(rows, cut.settled if early else None, request.timeout)
        name = f"{'chatcmpl' if chat else 'cmpl'}-{uuid.uuid4().hex}"
        usage = bool(request.stream_options and request.stream_options.include_usage)
        return cls(service, pending, cut, chat, name, int(time.time()), n, usage, bool(request.provisional))

    def answer(self, task: Task) -> Answer:
        assert task.result is not None
        return self.cut.final(task.result.tokens, task.result.finish_reason)

    def details(self, task: Task) -> dict[str, Any]:
        assert task.result is not None
        header = task.row.trace.header
        warnings = [{**warning.to_json(), "fix": in_fields(warning.fix)} for warning in task.result.warnings]
        return {
            "decoder": header["decoder"], "params": header["params"], "nfe": task.result.nfe,
            "seconds": task.result.seconds, "warnings": warnings,
        }  # fmt: skip

    def whole(self) -> dict[str, Any]:
        tasks = self.pending.job.tasks
        answers = [self.answer(task) for task in tasks]
        choices = [
            {
                "index": i,
                **({"message": {"content": answer.text}} if self.chat else {"text": answer.text}),
                "finish_reason": answer.finish_reason,
                "unmask": self.details(task),
            }
            for i, (task, answer) in enumerate(zip(tasks, answers, strict=True))
        ]
        return {**self.envelope(), "choices": choices, "usage": self.count(answers)}

    def envelope(self) -> dict[str, Any]:
        return {"id": self.id, "created": self.created, "model": self.service.model.name}

    def count(self, answers: list[Answer]) -> dict[str, int]:
        """A prompt counts once, however many answers were asked for."""
        prompts = self.pending.job.rows[:: self.n]
        prompt = sum(row.canvas.prompt_length for row in prompts)
        completion = sum(answer.tokens for answer in answers)
        return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}

    async def stream(self) -> AsyncGenerator[str, None]:
        """Server-sent events: deltas of the committed prefix, per choice, then how each ended."""
        try:
            async for event in self.events():
                yield event
        except ApiError as error:
            yield sse(error.body)

    async def events(self) -> AsyncIterator[str]:
        tasks = self.pending.job.tasks
        streams = [Stream(self.cut) for _ in tasks]
        ahead = [Beyond(self.cut.tokenizer) for _ in tasks]
        answers: dict[int, Answer] = {}
        if self.chat:
            for i in range(len(tasks)):
                yield self.chunk(i, "", first=True)
        while len(answers) < len(tasks):
            if not await self.pending.news(KEEP_ALIVE):
                yield ": waiting\n\n"
                continue
            if self.pending.job.error:
                raise self.pending.job.error
            for i, task in enumerate(tasks):
                if i in answers:
                    continue
                result = task.result
                if result is None:
                    delta, news = streams[i].more(task.prefix), ahead[i].news(task) if self.provisional else None
                    if delta or news is not None:
                        yield self.chunk(i, delta, provisional=news)
                else:
                    answers[i] = self.answer(task)
                    rest = streams[i].rest(answers[i])
                    if rest:
                        yield self.chunk(i, rest)
                    yield self.chunk(i, "", task=task, reason=answers[i].finish_reason)
        if self.usage:
            yield sse({**self.envelope(), **self.kind(), "choices": [], "usage": self.count(list(answers.values()))})
        yield "data: [DONE]\n\n"

    def kind(self) -> dict[str, str]:
        return {"object": "chat.completion.chunk" if self.chat else "text_completion"}

    def chunk(
        self, index: int, text: str, *, first: bool = False, task: Task | None = None, reason: str | None = None,
        provisional: list[dict[str, Any]] | None = None,
    ) -> str:  # fmt: skip
        choice: dict[str, Any] = {"index": index, "finish_reason": reason, "logprobs": None}
        if self.chat:
            choice["delta"] = {"role": "assistant", "content": ""} if first else {"content": text} if text else {}
        else:
            choice["text"] = text
        if task:
            choice["unmask"] = self.details(task)
        if provisional is not None:
            choice["provisional"] = provisional
        return sse({**self.envelope(), **self.kind(), "choices": [choice]})


def in_fields(fix: str) -> str:
    """A warning's remedy as fields of a request: the library words it as flags of the command line."""
    return re.sub(r"(?<!\S)(?:-o |--)([a-z-]+)", lambda flag: flag[1].replace("-", "_"), fix)


def sse(data: dict[str, Any]) -> str:
    return f"data: {json.dumps(data, ensure_ascii=False, separators=(',', ':'))}\n\n"


def with_sampling(service: Service, request: Request) -> dict[str, Any]:
    """OpenAI's temperature and top_p, where the decoder has them; elsewhere only the values that change nothing."""
    options = request.decoder_options()
    name = request.decoder or service.settings.decoder
    known = service.catalogue.entry(name).types
    for field, neutral in (("temperature", 0), ("top_p", 1)):
        value = getattr(request, field)
        if value is None:
            continue
        if field in known:
            options[field] = value
        elif value != neutral:
            message = f"{name} commits the most likely token and takes no {field}: leave it out, or name a decoder"
            raise invalid(f"{message} that samples (llada-default, dream-default)", field, "unsupported_parameter")
    return options
