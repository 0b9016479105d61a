"""Who may use the server, and what happens past its limits: keys, hosts, headers, a full queue, deadlines."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import openai
import pytest
import torch

import checkpoints
import unmask
from serving import Live, ask, chat, expected, running, settings, slow_request, wait_until
from unmask.models import Model
from unmask.serve.service import Settings

JSON = {"Content-Type": "application/json"}
CHAT = "/v1/chat/completions"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Model:
    folder = checkpoints.write_checkpoint(
        tmp_path_factory.mktemp("doors") / "small", "llada", layers=6, max_sequence_length=4096
    )
    return unmask.load(folder, device="cpu")


@pytest.fixture(scope="module")
def live(small: Model) -> Iterator[Live]:
    with running(small) as server:
        yield server


# --- doors --------------------------------------------------------------------------------------------------


def test_a_key_is_needed_where_one_is_set(small: Model) -> None:
    with running(small, Settings(name="small", api_key="a-long-enough-key")) as live:
        for given in (None, "Bearer wrong", "Basic a-long-enough-key", "Bearer a-long-enough-ke", "Bearer é"):
            headers = {"Authorization": given.encode("latin-1")} if given else {}
            for path in ("/v1/models", "/metrics", "/api/page", "/openapi.json", "/v1/anything"):
                answer = live.get(path, headers=headers)
                assert answer.status_code == 401 and answer.json()["error"]["code"] == "invalid_api_key"
                assert answer.headers["WWW-Authenticate"] == "Bearer"
        assert live.post(CHAT, json=ask()).status_code == 401
        assert (
            live.get("/health").status_code
            == live.get("/").status_code
            == live.get("/page/page.js").status_code
            == 200
        )
        client = openai.OpenAI(base_url=f"{live.url}/v1", api_key="a-long-enough-key", max_retries=0)
        assert chat(client).choices[0].message.content
        with pytest.raises(openai.AuthenticationError):
            chat(live.client())


def test_keys_are_compared_in_constant_time(small: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """By digests of equal length through hmac, whatever was sent: there is no other comparison to take a shortcut."""
    import hmac

    compared: list[tuple[int, int]] = []
    original = hmac.compare_digest
    monkeypatch.setattr(
        "unmask.serve.guard.hmac.compare_digest", lambda a, b: compared.append((len(a), len(b))) or original(a, b)
    )
    with running(small, Settings(name="small", api_key="a-long-enough-key")) as live:
        for key in ("x", "a-long-enough-keX", "y" * 1000, "a-long-enough-key"):
            live.get("/v1/models", headers={"Authorization": f"Bearer {key}"})
    assert compared == [(32, 32)] * 4


def test_another_sites_page_cannot_use_the_server(small: Model) -> None:
    with running(small, Settings(name="small", hosts=("127.0.0.1", "localhost"))) as live:
        assert live.get("/v1/models", headers={"Host": "evil.example"}).status_code == 403
        assert live.get("/health", headers={"Host": f"localhost:{live.port}"}).status_code == 200
        crossed = live.post(CHAT, json=ask(), headers={"Origin": "https://evil.example"})
        assert crossed.status_code == 403 and crossed.json()["error"]["code"] == "origin_not_allowed"
        assert live.post(CHAT, json=ask(), headers={"Origin": live.url}).status_code == 200
        for host in (
            "localhost.evil.example",
            "127.0.0.1@evil.example",
            "[::1]evil.example",
            "[::1",
            "127.0.0.1:x",
            "",
        ):
            assert live.get("/health", headers={"Host": host}).status_code in (400, 403), host
        two = [("Origin", live.url), ("Origin", "https://evil.example")]
        assert live.post(CHAT, json=ask(), headers=two).status_code == 403
        preflight = httpx.options(
            live.url + CHAT, headers={"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
        )
        assert "access-control-allow-origin" not in preflight.headers


def test_behind_a_proxy_the_name_it_is_known_by_is_enough(small: Model) -> None:
    """The proxy may pass on its own idea of the Host; the page's Origin is the name given with --allow-host."""
    with running(small, Settings(name="small", hosts=("127.0.0.1", "localhost", "me.example"))) as live:
        assert live.post(CHAT, json=ask(), headers={"Origin": "https://me.example"}).status_code == 200
        for origin in ("https://me.example.evil.example", "https://evil.example", "null", "http://localhost:3000"):
            assert live.post(CHAT, json=ask(), headers={"Origin": origin}).status_code == 403


def test_every_answer_carries_the_security_headers(live: Live) -> None:
    pages = [live.get(path) for path in ("/", "/health", "/nothing", "/page/page.css", "/page/page.js")]
    for answer in (*pages, live.post(CHAT, content=b"{", headers=JSON), live.post(CHAT, json=ask(canvas_length=8))):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "*" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        assert "server" not in answer.headers


def test_a_server_that_drains_is_not_called_failed(small: Model) -> None:
    with running(small) as live:
        live.service.scheduler.drain(5)
        live.service.scheduler.thread.join(10)  # nothing is left to do: the thread ends
        answer = live.get("/health")
        assert (answer.status_code, answer.json()["status"]) == (503, "draining")


# --- load beyond the limits ---------------------------------------------------------------------------------


def test_a_full_queue_is_429_with_retry_after(small: Model) -> None:
    with running(small, settings(batch=1, queue=1)) as live:
        streams = [
            httpx.stream("POST", live.url + CHAT, json=slow_request(stream=True), timeout=30) for _ in range(2)
        ]
        for stream in streams:
            stream.__enter__()
        wait_until(lambda: live.service.scheduler.running and live.service.scheduler.waiting)
        answer = live.post(CHAT, json=ask())
        assert answer.status_code == 429 and int(answer.headers["Retry-After"]) >= 1
        with pytest.raises(openai.RateLimitError):
            chat(live.client())
        for stream in streams:
            stream.__exit__(None, None, None)
        wait_until(lambda: live.idle)
        assert live.post(CHAT, json=ask()).status_code == 200


def test_a_stream_that_waits_says_so_now_and_then(small: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unmask.serve.calls.KEEP_ALIVE", 0.05)
    with (
        running(small, settings(batch=1, quantum=1000)) as live,
        httpx.stream("POST", live.url + CHAT, json=slow_request(stream=True)) as first,
    ):
        begun = first.iter_raw()  # kept: an iterator that is dropped closes the connection
        next(begun)
        with httpx.stream("POST", live.url + CHAT, json=ask(stream=True)) as second:
            assert ": waiting" in [line for _, line in zip(range(8), second.iter_lines(), strict=False)]


def test_a_deadline_is_504_or_an_error_event(live: Live) -> None:
    with pytest.raises(openai.APIStatusError) as error:
        chat(live.client(), extra_body={"timeout": 0.15, "canvas_length": 400, "decoder": "left-to-right"})
    assert error.value.status_code == 504 and error.value.response.headers["x-should-retry"] == "false"
    with pytest.raises(openai.APIError) as broken:
        list(
            chat(
                live.client(),
                stream=True,
                extra_body={"timeout": 0.15, "canvas_length": 400, "decoder": "left-to-right"},
            )
        )
    assert "deadline" in str(broken.value)


def test_a_request_that_fails_is_a_500_of_its_own(live: Live, small: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    step = live.service.scheduler.loop.step

    def poison(rows: list) -> None:
        if any(row.canvas.length == 17 for row in rows):
            raise torch.OutOfMemoryError("no memory for PROMPT-TEXT")
        step(rows)

    monkeypatch.setattr(live.service.scheduler.loop, "step", poison)
    client = live.client()
    with pytest.raises(openai.InternalServerError) as error:
        chat(client, extra_body={"canvas_length": 17, "decoder": "left-to-right"})
    assert error.value.code == "out_of_memory" and "PROMPT-TEXT" not in str(error.value)
    assert chat(client).choices[0].message.content == expected(small)
