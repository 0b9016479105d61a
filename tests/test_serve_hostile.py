"""Clients that stall, lie about sizes or send nonsense; and what a stranger must not be able to do."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import suppress

import httpx
import pytest

import checkpoints
import unmask
from serving import Live, ask, expected, head, running, settings, slow_request, wait_until
from unmask.models import Model

JSON = {"Content-Type": "application/json"}
CHAT = "/v1/chat/completions"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Model:
    folder = checkpoints.write_checkpoint(
        tmp_path_factory.mktemp("hostile") / "small", "llada", layers=6, max_sequence_length=4096
    )
    return unmask.load(folder, device="cpu")


@pytest.fixture(scope="module")
def live(small: Model) -> Iterator[Live]:
    with running(small, settings(body_bytes=64 * 1024, body_timeout=1.0)) as server:
        yield server


def raw(live: Live, data: bytes, wait: float = 5.0) -> bytes:
    with socket.create_connection(("127.0.0.1", live.port), timeout=wait) as connection:
        connection.sendall(data)
        answer = b""
        with suppress(ConnectionResetError):  # an answer to a request that was not read to its end
            while chunk := connection.recv(65536):
                answer += chunk
        return answer


# --- sizes --------------------------------------------------------------------------------------------------


def test_a_declared_body_past_the_limit_is_refused_before_it_is_sent(live: Live) -> None:
    answer = raw(live, head(CHAT, 10**12))
    assert b" 413 " in answer.split(b"\r\n")[0] and b"body_too_large" in answer


def test_an_undeclared_body_past_the_limit_is_refused_while_it_arrives(live: Live) -> None:
    def chunks() -> Iterator[bytes]:
        for _ in range(200):
            yield b"[" * 1024

    with suppress(httpx.TransportError):  # the connection may be cut while we still write: just as well
        assert httpx.post(live.url + CHAT, content=chunks(), headers=JSON, timeout=10).status_code == 413
    assert live.get("/health").status_code == 200


def test_a_body_that_does_not_arrive_is_not_waited_for(live: Live) -> None:
    start = time.monotonic()
    answer = raw(live, head(CHAT, 1000) + b"{")
    assert b" 408 " in answer.split(b"\r\n")[0]
    assert time.monotonic() - start < 4


def test_endless_headers_are_cut(live: Live) -> None:
    answer = raw(live, b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n" + b"X: " + b"a" * 200_000)
    assert b" 400 " in answer.split(b"\r\n")[0] or answer == b""


# --- requests that two readers could read differently -----------------------------------------------------------

BODY = json.dumps(ask(canvas_length=4)).encode()
LENGTH = b"Content-Length: %d\r\n" % len(BODY)
CHUNKED = b"Transfer-Encoding: chunked\r\n"
CHUNKS = b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)


def post(*lines: bytes, body: bytes = BODY, host: bytes = b"Host: 127.0.0.1\r\n") -> bytes:
    return (
        f"POST {CHAT} HTTP/1.1\r\n".encode() + host + b"Content-Type: application/json\r\n" + b"".join(lines)
        + b"\r\n" + body
    )  # fmt: skip


def get(path: bytes, *lines: bytes) -> bytes:
    return b"GET " + path + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n" + b"".join(lines) + b"Connection: close\r\n\r\n"


SMUGGLED = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
WIRE: dict[str, tuple[bytes, bytes]] = {
    "both lengths": (post(LENGTH, CHUNKED, body=CHUNKS + SMUGGLED), b"400"),
    "both lengths, the other way": (post(CHUNKED, b"Content-Length: 4\r\n", body=CHUNKS + SMUGGLED), b"400"),
    "two lengths": (post(LENGTH, b"Content-Length: 3\r\n"), b"400"),
    "a space before the colon": (post(b"Transfer-Encoding : chunked\r\n", body=CHUNKS), b"400"),
    "another coding": (post(b"Transfer-Encoding: xchunked\r\n", body=CHUNKS), b"400"),
    "a signed length": (post(b"Content-Length: +5\r\n"), b"400"),
    "a length in Arabic digits": (post("Content-Length: ٣\r\n".encode()), b"400"),
    "a superscript length": (post(b"Content-Length: \xb2\r\n"), b"400"),
    "a length of 5000 digits": (post(b"Content-Length: " + b"9" * 5000 + b"\r\n"), b"400"),
    "a body that is longer than it says": (post(b"Content-Length: 5\r\n", b"Connection: close\r\n"), b"400"),
    "no host": (post(LENGTH, host=b""), b"400"),
    "two hosts": (post(LENGTH, host=b"Host: 127.0.0.1\r\nHost: evil.example\r\n"), b"400"),
    "a thousand headers": (get(b"/health", *(b"X%d: y\r\n" % i for i in range(1000))), b"431"),
    "a very long header": (get(b"/health", b"X: " + b"y" * 60_000 + b"\r\n"), b"431"),
    "bytes in the path": (get(b"/\xff\xfe"), b"400"),
    "a path that climbs": (get(b"/page/../../../../etc/passwd"), b"404"),
    "a path that climbs in disguise": (get(b"/page/%2e%2e%2f%2e%2e%2fetc/passwd"), b"404"),
    "a trailing slash": (get(b"/v1/models/"), b"404"),  # no redirect, which would be made of the Host header
    "another site's URL": (get(b"http://evil.example/v1/models"), b"404"),
    "a method of its own": (get(b"/health").replace(b"GET", b"FOO"), b"405"),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100) + b"\r\n\r\n", b"400"),
    "HTTP/0.9": (b"GET /\r\n\r\n", b"400"),
}


@pytest.mark.parametrize(("data", "status"), WIRE.values(), ids=WIRE)
def test_oddities_on_the_wire_get_one_answer_and_the_line_is_closed(live: Live, data: bytes, status: bytes) -> None:
    answer = raw(live, data)
    assert answer.startswith(b"HTTP/1.1 " + status), answer[:200]
    assert answer.count(b"HTTP/1.1 ") == 1 and b"unmask_requests_total" not in answer, "a second answer was got"


def test_silent_connections_are_closed_and_make_room(small: Model) -> None:
    """So are those that send their headers byte by byte, and whoever works meanwhile is left alone."""
    with running(small, settings(connections=8, head_timeout=0.5)) as live:
        silent = [socket.create_connection(("127.0.0.1", live.port), timeout=5) for _ in range(10)]
        refused = live.get("/health")
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "too_many_connections")
        assert refused.headers["Retry-After"] == "1" and refused.headers["Connection"] == "close"
        assert "x-request-id" in refused.headers and "content-security-policy" in refused.headers
        silent[0].sendall(b"GET /health HTTP/1.1\r\nX: ")
        start = time.monotonic()
        for connection in silent:
            while time.monotonic() < start + 20:
                with suppress(TimeoutError, OSError):
                    silent[0].sendall(b"y")
                connection.settimeout(0.2)
                with suppress(TimeoutError):
                    assert connection.recv(1) == b""
                    break
            else:
                raise AssertionError("a silent connection was kept")
            connection.close()
        wait_until(lambda: live.get("/health").status_code == 200)
        answer = live.post(CHAT, json=slow_request(canvas_length=96))
        assert answer.status_code == 200, "a request that is being answered is not cut"


def test_head_is_get_without_the_body(live: Live) -> None:
    answer = raw(live, get(b"/health").replace(b"GET", b"HEAD"))
    assert answer.startswith(b"HTTP/1.1 200 ") and answer.endswith(b"\r\n\r\n")


# --- nonsense -----------------------------------------------------------------------------------------------

HALF = "\ud800"  # of a surrogate pair: JSON can spell it, UTF-8 cannot
NONSENSE: dict[str, bytes | dict] = {
    "empty": b"",
    "not json": b"{",
    "not utf-8": b'{"model": "\xff\xfe"}',
    "null": b"null",
    "a list": b"[]",
    "a number": b"1",
    "deep lists": b"[" * 20_000,
    "deep objects": b'{"a":' * 9_000,
    "huge integer": b'{"model": "small", "n": ' + b"9" * 6000 + b"}",
    "huge float": b'{"model": "small", "temperature": 1e999, "messages": []}',
    "NaN": b'{"model": "small", "beta": NaN}',
    "the same key twice": b'{"model": "small", "model": "x", "messages": []}',
    "infinite option": json.dumps(ask(beta=1)).replace('"beta": 1', '"w": Infinity, "theta_h": Infinity').encode(),
    "NaN option": json.dumps(ask(beta=1)).replace('"beta": 1', '"beta": NaN').encode(),
    "big integer option": json.dumps(ask(beta=1)).replace('"beta": 1', '"beta": ' + "9" * 400).encode(),
    "an option that is an object": ask(beta={"a": 1}),
    "a very long option name": {**ask(), "x" * 30_000: 1},
    "half a character": ask(HALF),
    "half a character in a name": ask(decoder=HALF),
    "half a character in an option": {**ask(), HALF: 1},
    "half a character in a message's field": {**ask(), "messages": [{"role": "user", "content": "x", HALF: 1}]},
    "half a character in a stop": ask(stop=HALF),
    "spaces only": ask(" \n\t"),
    "an object for text": {**ask(), "messages": [{"role": "user", "content": {}}]},
    "negative canvas": ask(canvas_length=-1),
    "canvas as text": ask(canvas_length="32"),
    "seed past 64 bits": ask(seed=2**64),
}


@pytest.mark.parametrize("body", NONSENSE.values(), ids=NONSENSE)
def test_nonsense_is_a_400(live: Live, body: bytes | dict) -> None:
    if isinstance(body, dict):
        body = json.dumps(body).encode()
    answer = live.post(CHAT, content=body, headers=JSON)
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert error["type"] == "invalid_request_error" and error["message"] and "Traceback" not in error["message"]


@pytest.mark.parametrize("name", ["not json", "not utf-8", "deep lists", "deep objects", "huge integer"])
def test_what_no_parser_takes_is_named_as_such(live: Live, name: str) -> None:
    error = live.post(CHAT, content=NONSENSE[name], headers=JSON).json()["error"]
    assert error["code"] == "invalid_json" and error["message"] == "the body is not valid JSON"


@pytest.mark.parametrize(
    "prompt", ["\x00", "<|mdm_mask|>" * 20, "<|eot_id|>", "{{ 7*7 }}{% raise %}", "\u202e\u200b🏳️‍🌈", "é" * 500]
)
def test_odd_prompts_are_decoded_like_any_other(live: Live, small: Model, prompt: str) -> None:
    answer = live.post(CHAT, json=ask(prompt, canvas_length=8))
    assert answer.status_code == 200
    assert answer.json()["choices"][0]["message"]["content"] == expected(small, prompt, canvas=8)


def test_form_posts_and_wrong_methods(live: Live) -> None:
    form = live.post(CHAT, data={"model": "small"})
    assert form.status_code == 400 and "Content-Type: application/json" in form.json()["error"]["message"]
    plain = live.post(CHAT, content=json.dumps(ask()), headers={"Content-Type": "text/plain"})
    assert plain.status_code == 400, "a form on another site can send text/plain without asking"
    for method, path, status in (
        ("GET", CHAT, 405),
        ("DELETE", "/", 405),
        ("GET", "/v1/nothing", 404),
        ("TRACE", CHAT, 405),
    ):
        answer = httpx.request(method, live.url + path)
        assert answer.status_code == status and "error" in answer.json()


def test_websockets_are_not_spoken(live: Live) -> None:
    answer = raw(
        live,
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade, close\r\n"
        b"Upgrade: websocket\r\nSec-WebSocket-Key: x\r\n\r\n",
    )
    assert b" 101 " not in answer.split(b"\r\n")[0]
