"""Clients that vanish, and clients that stop reading: their rows and their connections go."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import suppress

import httpx
import pytest

import checkpoints
import unmask
from serving import PROMPT, Live, ask, chat, expected, head, running, settings, slow_request, wait_until
from unmask.models import Model
from unmask.serve.streaming import Told

CHAT = "/v1/chat/completions"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Model:
    folder = checkpoints.write_checkpoint(
        tmp_path_factory.mktemp("vanishing") / "small", "llada", layers=6, max_sequence_length=4096
    )
    return unmask.load(folder, device="cpu")


@pytest.fixture(scope="module")
def live(small: Model) -> Iterator[Live]:
    with running(small) as server:
        yield server


@pytest.mark.parametrize("path", [CHAT, "/api/watch"])
def test_a_client_that_vanishes_mid_stream_frees_its_row_within_a_step(live: Live, path: str) -> None:
    body = (
        slow_request(stream=True)
        if path == CHAT
        else {"prompt": PROMPT, "decoder": "left-to-right", "canvas_length": 400}
    )
    with httpx.stream("POST", live.url + path, json=body, timeout=30) as answer:
        for count, _ in enumerate(answer.iter_raw()):
            if count == 3:
                break
    gone_at = time.monotonic()
    task = live.service.scheduler.running[0] if live.service.scheduler.running else None
    wait_until(lambda: live.idle, 5)
    assert time.monotonic() - gone_at < 1.0
    assert task is None or task.result is None, "it was decoded to the end for nobody"


def test_a_client_that_vanishes_while_it_waits_for_a_whole_answer(live: Live) -> None:
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(live.url + CHAT, json=slow_request(), timeout=0.2)
    wait_until(lambda: live.idle, 5)
    before = live.service.metrics.counters["unmask_rows_total"]
    time.sleep(0.1)
    assert live.service.metrics.counters["unmask_rows_total"] == before


def test_twenty_clients_vanish_and_the_next_one_is_served(live: Live, small: Model) -> None:
    for _ in range(20):
        with httpx.stream("POST", live.url + CHAT, json=slow_request(stream=True), timeout=30) as answer:
            next(answer.iter_raw())
    assert chat(live.client()).choices[0].message.content == expected(small)
    wait_until(lambda: live.idle, 5)


def test_a_client_that_vanishes_before_the_first_piece_is_let_go_of() -> None:
    """A generator that was never started runs no `finally` of its own."""
    closed: list[bool] = []

    async def lines() -> AsyncGenerator[str, None]:
        yield "never told"

    async def receive() -> dict[str, str]:
        return {"type": "http.disconnect"}

    async def send(message: object) -> None:
        await asyncio.sleep(60)

    asyncio.run(Told(lines(), lambda: closed.append(True), "text/plain")({"type": "http"}, receive, send))
    assert closed


def deaf(live: Live, data: bytes) -> socket.socket:
    """A client that sends what it can and never reads."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect(("127.0.0.1", live.port))
    connection.setblocking(False)
    with suppress(BlockingIOError):
        connection.sendall(data)
    return connection


@pytest.fixture(scope="module")
def hurried(small: Model) -> Iterator[Live]:
    with running(small, settings(write_timeout=0.5), buffer=4096) as server:
        yield server


@pytest.mark.parametrize("path", [CHAT, "/api/watch"])
def test_a_reader_that_stops_reading_is_dropped_and_holds_nobody_up(hurried: Live, small: Model, path: str) -> None:
    fields = slow_request(stream=True, provisional=True, canvas_length=1000, early_stop=False)
    watched = {"prompt": PROMPT, "decoder": "left-to-right", "canvas_length": 1000}
    body = json.dumps(fields if path == CHAT else watched).encode()
    rows = hurried.service.metrics.counters["unmask_rows_total"]
    with deaf(hurried, head(path, len(body)) + body):
        wait_until(lambda: hurried.service.scheduler.running, 5)
        row = hurried.service.scheduler.running[0].row
        answer = hurried.post(CHAT, json=ask()).json()
        assert answer["choices"][0]["message"]["content"] == expected(small) and not row.done
        wait_until(lambda: hurried.idle and not hurried.server.server_state.connections, 30)
        assert not row.done and hurried.service.metrics.counters["unmask_rows_total"] == rows + 1, (
            "nobody read the row"
        )


def test_readers_that_stop_before_an_answer_begins_make_room(hurried: Live) -> None:
    """Answers that wait for full buffers before their first byte, and connections that wait for them to close."""
    asks = b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 400
    clients = [deaf(hurried, asks) for _ in range(12)]
    wait_until(lambda: any(c.flow.write_paused for c in tuple(hurried.server.server_state.connections)), 10)
    wait_until(lambda: not hurried.server.server_state.connections, 30)
    assert hurried.get("/health").status_code == 200
    for client in clients:
        client.close()
