"""Errors as OpenAI clients expect them: {"error": {message, type, param, code}} and a fitting status."""

from __future__ import annotations

import math
import traceback
from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from unmask.errors import UserError


class ErrorDetail(BaseModel):
    message: str
    type: str
    param: str | None = None
    code: str | None = None


class ErrorBody(BaseModel):
    error: ErrorDetail


class ApiError(Exception):
    """An answer that is an error. The message is for the client; it is never logged."""

    def __init__(
        self,
        status: int,
        message: str,
        code: str | None = None,
        param: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.code, self.param, self.headers = status, message, code, param, headers or {}

    @property
    def body(self) -> dict[str, Any]:
        kinds = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
        kind = kinds.get(self.status, "server_error" if self.status >= 500 else "invalid_request_error")
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}

    def response(self) -> JSONResponse:
        return JSONResponse(self.body, self.status, self.headers)


def invalid(message: str, param: str | None = None, code: str | None = None) -> ApiError:
    return ApiError(400, message, code, param)


def told(error: BaseException) -> str:
    """An exception as the log may have it: its kind and its frames. Its text stays out, it may quote a prompt."""
    return f"{type(error).__name__}\n{''.join(traceback.format_tb(error.__traceback__))}"


def misused(error: UserError) -> ApiError:
    """What the library calls a mistake, with the field it is about where that is known."""
    return invalid(str(error), getattr(error, "param", None))


def busy(seconds: float) -> ApiError:
    wait = str(max(1, min(60, math.ceil(seconds))))
    message = f"the queue is full; try again in {wait} s"
    return ApiError(429, message, "queue_full", headers={"Retry-After": wait})


# OpenAI's client repeats 5xx answers on its own; these would fail again, or only add to the load.
NO_RETRY = {"x-should-retry": "false"}


def expired(seconds: float) -> ApiError:
    return ApiError(504, f"not finished within the deadline of {seconds:g} s", "deadline_exceeded", headers=NO_RETRY)


def closing() -> ApiError:
    return ApiError(503, "the server is shutting down", "shutting_down", headers={"Retry-After": "5"})


def stopped() -> ApiError:
    return ApiError(503, "the scheduler has stopped: the server must be started again", "scheduler_stopped")


def oversized(positions: int, most: int) -> ApiError:
    message = f"a step of this request takes {positions} positions (prompt and canvas, times lookahead or guidance)"
    return invalid(f"{message}; the limit is {most}: shorten the prompt or the canvas, or take fewer branches")


def crowded() -> ApiError:
    headers = {"Retry-After": "1", "Connection": "close"}
    return ApiError(503, "too many connections; try again in 1 s", "too_many_connections", headers=headers)


def failed(message: str, code: str = "decode_failed") -> ApiError:
    return ApiError(500, message, code, headers=NO_RETRY)


def install(app: FastAPI) -> None:
    """Every error leaves in the same shape, whoever raised it."""

    @app.exception_handler(ApiError)
    async def own(_: Request, error: ApiError) -> JSONResponse:
        return error.response()

    @app.exception_handler(UserError)
    async def user(_: Request, error: UserError) -> JSONResponse:
        return misused(error).response()

    @app.exception_handler(RequestValidationError)
    async def validation(_: Request, error: RequestValidationError) -> JSONResponse:
        return explain(error).response()

    @app.exception_handler(HTTPException)
    async def http(_: Request, error: HTTPException) -> JSONResponse:
        if error.status_code == 400:  # FastAPI's, for what Python's parser gives up on: depth, digits, bytes
            return not_json().response()
        plain = {404: "no such endpoint", 405: "this endpoint does not take that method"}
        message = plain.get(error.status_code, str(error.detail))
        return ApiError(error.status_code, message, headers=dict(error.headers or {})).response()


def explain(error: RequestValidationError) -> ApiError:
    """The first thing wrong with the body, by name; its value is not repeated."""
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return not_json()
    if first["loc"] == ("body",):
        return invalid("send a JSON object, with Content-Type: application/json", code="invalid_json")
    place, message = meant(error.errors())
    where = ".".join(map(str, place))
    return invalid(f"{where}: {message}" if where else message, param=where or None)


def not_json() -> ApiError:
    return invalid("the body is not valid JSON", code="invalid_json")


def meant(errors: Sequence[Any]) -> tuple[tuple[str | int, ...], str]:
    """Where it went wrong and how. Pydantic tries every alternative of a union and tells of each: the one that was
    meant is the one that got furthest, or that does not fail by its type alone."""
    first = place_of(errors[0])
    tried = [error for error in errors if place_of(error)[: len(first)] == first]
    best = max(tried, key=lambda error: (len(place_of(error)), not of_type(error)))
    place = place_of(best)
    if of_type(best):
        valid = "Input should be a valid "
        kinds = dict.fromkeys(str(error["msg"]).removeprefix(valid) for error in tried if place_of(error) == place)
        return place, valid + " or ".join(kinds) if len(kinds) > 1 else str(best["msg"])
    return place, str(best["msg"]).removeprefix("Value error, ").replace(" after validation", "")


def of_type(error: Any) -> bool:
    return str(error["type"]).endswith("_type")


def place_of(error: Any) -> tuple[str | int, ...]:
    """Fields and indices; between them pydantic names the alternative of a union (`list[TextPart]`, `bool`)."""
    parts = error["loc"][1:]
    if of_type(error) and parts and f"{parts[-1]}_type" == error["type"]:
        parts = parts[:-1]
    return tuple(part for part in parts if isinstance(part, int) or "[" not in part)
