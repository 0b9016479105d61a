"""What answers look like: OpenAI's shapes, with what it has no word for under `unmask`."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel


class Usage(BaseModel):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class Warned(BaseModel):
    """What the decode did that its answer may not survive; `code` is stable."""

    code: str
    sentence: str
    fix: str


class Details(BaseModel):
    """How an answer was decoded."""

    decoder: str
    params: dict[str, Any]
    nfe: int
    seconds: float
    warnings: list[Warned] = []


class AssistantMessage(BaseModel):
    role: Literal["assistant"] = "assistant"
    content: str
    refusal: None = None


class ChatChoice(BaseModel):
    index: int
    message: AssistantMessage
    finish_reason: Literal["stop", "length"]
    logprobs: None = None
    unmask: Details


class TextChoice(BaseModel):
    index: int
    text: str
    finish_reason: Literal["stop", "length"]
    logprobs: None = None
    unmask: Details


class ChatCompletion(BaseModel):
    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[ChatChoice]
    usage: Usage


class TextCompletion(BaseModel):
    id: str
    object: Literal["text_completion"] = "text_completion"
    created: int
    model: str
    choices: list[TextChoice]
    usage: Usage


class ModelCard(BaseModel):
    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "unmask"


class ModelList(BaseModel):
    object: Literal["list"] = "list"
    data: list[ModelCard]


Status = Literal["ok", "draining", "failed"]


class Health(BaseModel):
    status: Status
    model: str
    version: str
