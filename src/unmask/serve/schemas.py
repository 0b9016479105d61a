"""What requests look like. Fields that are not named here are options of the decoder (`beta`, `threshold`)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from unmask.serve.errors import invalid


def whole_text(text: str) -> str:
    """JSON can spell half a surrogate pair; UTF-8 cannot, and neither can a tokenizer."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError("contains half a surrogate pair, which is not text") from None
    return text


Text = Annotated[str, AfterValidator(whole_text)]
Seconds = Annotated[float, Field(ge=0.1, allow_inf_nan=False)]
Name = Annotated[str, Field(max_length=128), AfterValidator(whole_text)]


class TextPart(BaseModel):
    model_config = ConfigDict(strict=True, extra="allow")
    type: Literal["text"]
    text: Text


class Message(BaseModel):
    model_config = ConfigDict(strict=True, extra="allow")
    role: Literal["system", "developer", "user", "assistant"]
    content: Text | Annotated[list[TextPart], Field(max_length=64)]

    def plain(self) -> dict[str, str]:
        parts = self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)
        return {"role": "system" if self.role == "developer" else self.role, "content": parts}


class StreamOptions(BaseModel):
    model_config = ConfigDict(strict=True, extra="allow")
    include_usage: bool | None = None


def refuse_unknown(given: BaseModel, place: str) -> None:
    """Nothing is ignored in silence: what a part of a request says beyond its fields must ask for nothing."""
    for field, value in (given.model_extra or {}).items():
        if field in TOLERATED or (field in UNSUPPORTED and not value):
            continue
        name = field if field in UNSUPPORTED else repr(field) if len(field) <= 64 else "a field with a very long name"
        known = f"{place}.{field}" if field.isidentifier() and len(field) <= 64 else place
        raise invalid(f"{place}: {name} is not supported: leave it out", known, "unsupported_parameter")


# What a client sends along with a message or in stream_options that changes no answer here ...
TOLERATED = ("name", "refusal", "annotations", "include_obfuscation")
# ... and what would change it, unless it is null or empty.
UNSUPPORTED = ("tool_calls", "function_call", "audio")


class Request(BaseModel):
    """Shared by both endpoints. `extra="allow"`: the rest is checked against the decoder's options."""

    model_config = ConfigDict(strict=True, extra="allow")

    model: Name
    decoder: Name | None = Field(None, description="a name from /v1/decoders; the server's own by default")
    canvas_length: int | None = Field(None, ge=1, description="positions to decode; the model's own by default")
    seed: int | None = Field(None, ge=-(2**63), le=2**63 - 1)
    n: int | None = Field(None, ge=1)
    max_tokens: int | None = Field(None, ge=1, description="cuts the answer; the canvas keeps its length")
    stop: Text | Annotated[list[Text], Field(max_length=4)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    temperature: float | None = Field(None, ge=0, le=2, allow_inf_nan=False)
    top_p: float | None = Field(None, gt=0, le=1, allow_inf_nan=False)
    timeout: Seconds | None = Field(None, description="seconds; at most the server's own deadline")
    early_stop: bool | None = Field(None, description="end a row once its answer is final (default true)")
    provisional: bool | None = Field(None, description="stream what lies beyond the committed prefix as well")

    @property
    def stops(self) -> tuple[str, ...]:
        return tuple(stop for stop in ([self.stop] if isinstance(self.stop, str) else self.stop or []) if stop)

    def decoder_options(self) -> dict[str, Any]:
        """What remains after OpenAI's fields that change nothing here are set aside, and the others refused."""
        if self.stream_options:
            refuse_unknown(self.stream_options, "stream_options")
        extra = dict(self.model_extra or {})
        for field, neutral in NEUTRAL.items():
            if field in extra and extra.pop(field) not in neutral:
                raise invalid(f"{field} is not supported: leave it out", field, "unsupported_parameter")
        for field in IGNORED:
            extra.pop(field, None)
        return extra


# OpenAI's fields that a client may send as long as they ask for nothing: (field, values that ask for nothing).
NEUTRAL: dict[str, tuple[Any, ...]] = {
    "frequency_penalty": (None, 0), "presence_penalty": (None, 0), "logit_bias": (None, {}),
    "logprobs": (None, False, 0), "top_logprobs": (None, 0), "tools": (None, []), "tool_choice": (None, "none"),
    "functions": (None, []), "function_call": (None, "none"), "response_format": (None, {"type": "text"}),
    "modalities": (None, ["text"]), "audio": (None,), "prediction": (None,), "best_of": (None, 1),
    "echo": (None, False), "suffix": (None,), "reasoning_effort": (None,), "verbosity": (None,),
    "web_search_options": (None,), "max_output_tokens": (None,),
}  # fmt: skip
# Bookkeeping between a client and OpenAI's own service.
IGNORED = (
    "user",
    "metadata",
    "store",
    "service_tier",
    "parallel_tool_calls",
    "safety_identifier",
    "prompt_cache_key",
)


class ChatRequest(Request):
    messages: Annotated[list[Message], Field(min_length=1)]
    max_completion_tokens: int | None = Field(None, ge=1)

    def conversation(self) -> list[dict[str, str]]:
        for i, message in enumerate(self.messages):
            refuse_unknown(message, f"messages.{i}")
            for j, part in enumerate([] if isinstance(message.content, str) else message.content):
                refuse_unknown(part, f"messages.{i}.content.{j}")
        return [message.plain() for message in self.messages]


class CompletionRequest(Request):
    prompt: Text | Annotated[list[Text], Field(min_length=1)]


class WatchRequest(BaseModel):
    """The page's: one prompt, one decoder, every step of it."""

    model_config = ConfigDict(strict=True, extra="forbid")

    prompt: Text
    decoder: Name | None = None
    options: dict[Name, bool | int | float | Text | None] = Field(default_factory=dict)
    canvas_length: int | None = Field(None, ge=1)
    seed: int = Field(0, ge=0, le=2**63 - 1)
