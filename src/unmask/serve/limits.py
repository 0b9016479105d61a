"""Every bound the server holds, in one place. A request past one of them is refused with a sentence."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from unmask.errors import UserError

CONNECTIONS = "unmask.connections"  # the key in a request's state under which all connections are found


@dataclass(frozen=True)
class Limits:
    # What one request may ask for.
    headers: int = 100
    header_bytes: int = 32 * 1024
    body_bytes: int = 256 * 1024
    prompt_chars: int = 32_768  # before the tokenizer sees it; tokens are bounded by the model's context
    messages: int = 128
    n: int = 8  # answers per request, prompts times n
    canvas: int = 1024
    option: int = 4096  # any whole-number decoder option (steps, top_k): a schedule of 1e9 steps is an attack
    branches: int = 8  # lookahead rows a request may run beside its own

    # What all requests together may use.
    batch: int = 16  # rows stepped together
    positions: int = 16_384  # tokens of those rows: what bounds the memory of a step
    queue: int = 128  # rows waiting for a place; past it: 429
    connections: int = 512

    # How long things may take, in seconds (quantum: in steps).
    deadline: float = 120.0  # per request, queueing included; a request may ask for less
    quantum: int = 48  # a row keeps its place this long while others wait
    head_timeout: float = 10.0  # from connecting, or from the first byte, to the end of a request's headers
    body_timeout: float = 20.0
    write_timeout: float = 30.0  # a reader that leaves its buffers full for so long is dropped
    drain: float = 20.0  # after SIGTERM

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not (value > 0 and math.isfinite(value)):
                raise UserError(f"limit {field.name} must be a finite number above 0, not {value}")
