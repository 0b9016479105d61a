"""Answers that are told bit by bit."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping

from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send


class Told(StreamingResponse):
    """Lets go of what it tells from, however telling ends. A client that vanishes before the first piece, or while
    one is being sent, leaves the generator as it is: its rows would be decoded for nobody until it is collected."""

    def __init__(
        self, told: AsyncGenerator[str, None], close: Callable[[], None], media_type: str,
        headers: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(told, media_type=media_type, headers={"X-Accel-Buffering": "no", **(headers or {})})
        self.told, self.close = told, close

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.close()
            await self.told.aclose()
