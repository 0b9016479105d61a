"""One connection: uvicorn's HTTP/1.1, with a clock for those who say nothing, and one for those who do not listen.

uvicorn waits for the head of a request as long as it takes, and for its answer to be read as long as that takes, even
to close the connection. A few hundred clients that do neither would use up the limit on connections, and everybody
else would be turned away.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from unmask.serve.limits import CONNECTIONS, Limits


def connection(limits: Limits) -> type[asyncio.Protocol]:
    """The class of connections under these limits; uvicorn makes one object of it per client."""

    class Connection(H11Protocol):
        patience: asyncio.TimerHandle | None = None
        looks: asyncio.TimerHandle | None = None
        held = False  # did the reader hold us up at the last look, and ever since?

        @property
        def asking(self) -> bool:
            """Is the server still waiting to hear what is wanted?"""
            return self.cycle is None or self.cycle.response_complete

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self.app_state = {
                **self.app_state,
                CONNECTIONS: self.connections,
            }  # for Guard to count
            self.watch()
            self.look()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self.watch()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            self.stop()
            if self.looks is not None:
                self.looks.cancel()

        def resume_writing(self) -> None:
            super().resume_writing()
            self.held = False

        def look(self) -> None:
            """Full buffers hold up an answer, unsent bytes the end of a connection: neither for two looks running.
            Closing would wait for the same reader; aborting is a disconnect like any other, and rows leave by it."""
            held = self.flow.write_paused or self.transport.is_closing()
            if held and self.held:
                self.transport.abort()
                return
            self.held = held
            self.looks = self.loop.call_later(limits.write_timeout, self.look)

        def watch(self) -> None:
            """The clock is not set back by what trickles in: a head has to be whole in time."""
            if not self.asking:
                self.stop()
            elif self.patience is None:
                self.patience = self.loop.call_later(limits.head_timeout, self.give_up)

        def give_up(self) -> None:
            self.patience = None
            if self.asking:
                self.transport.abort()

        def stop(self) -> None:
            if self.patience is not None:
                self.patience.cancel()
                self.patience = None

    return Connection
