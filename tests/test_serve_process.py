"""`unmask serve` as a process of its own: how it starts, what it writes down, how it ends."""

from __future__ import annotations

import json
import math
import socket
import threading
import time
from pathlib import Path

import httpx
import pytest

import checkpoints
import unmask
from serving import PROMPT, Process, ask, expected, wait_until
from unmask.cli import main
from unmask.errors import UserError
from unmask.serve import command
from unmask.serve.limits import Limits

CHAT = "/v1/chat/completions"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkpoints.write_checkpoint(
        tmp_path_factory.mktemp("process") / "small", "llada", layers=6, max_sequence_length=4096
    )


def test_sigterm_under_load_finishes_what_has_begun_and_refuses_the_rest(folder: Path) -> None:
    """Whoever was accepted gets the whole, right answer; nobody gets half of one."""
    with Process(folder, "--batch", "4") as server:
        outcomes: list[str] = []
        texts: list[str] = []

        def client(number: int) -> None:
            while True:
                try:
                    body = ask(canvas_length=96, decoder="left-to-right", stream=bool(number % 2))
                    answer = httpx.post(server.url + CHAT, json=body, timeout=60)
                except httpx.ConnectError:
                    outcomes.append("refused")
                    return
                except httpx.TransportError:
                    outcomes.append("cut")
                    return
                if answer.status_code != 200:
                    outcomes.append(str(answer.status_code))
                    return
                texts.append(
                    streamed(answer.text) if number % 2 else answer.json()["choices"][0]["message"]["content"]
                )

        threads = [threading.Thread(target=client, args=(i,)) for i in range(12)]
        for thread in threads:
            thread.start()
        wait_until(lambda: len(texts) >= 3)
        assert server.terminate() == 0
        for thread in threads:
            thread.join(10)
        assert len(outcomes) == 12 and set(outcomes) <= {"refused", "503"}, outcomes
        assert len(texts) >= 12, "requests that had begun were not finished"
        assert set(texts) == {expected(unmask.load(folder, device="cpu"), canvas=96, decoder="left-to-right")}


def streamed(body: str) -> str:
    events = [json.loads(line[6:]) for line in body.splitlines() if line.startswith("data: {")]
    assert body.rstrip().endswith("data: [DONE]"), "a stream ended without saying so"
    return "".join(event["choices"][0]["delta"].get("content", "") for event in events)


def test_a_drain_that_takes_too_long_ends_with_an_error_not_with_silence(folder: Path) -> None:
    """And prompts are written down, here where that was asked for."""
    with Process(folder, "--drain", "0.3", "--log-prompts") as server:
        body = ask(canvas_length=1000, decoder="left-to-right", stream=True)
        with httpx.stream("POST", server.url + CHAT, json=body) as answer:
            lines = answer.iter_lines()
            next(lines)
            start = time.monotonic()
            threading.Thread(target=server.terminate).start()
            rest = "\n".join(lines)
        assert "shutting_down" in rest and time.monotonic() - start < 5
        assert server.process.wait(10) == 0
        server.reader.join(5)
        assert PROMPT in server.log


def test_neither_keys_nor_prompts_are_written_down(folder: Path) -> None:
    key, prompt, env = "KEY-that-must-not-leak", "PROMPT-that-must-not-leak", {}
    env = {"UNMASK_API_KEY": key}
    with Process(folder, env=env) as server:
        right, wrong = {"Authorization": f"Bearer {key}"}, {"Authorization": f"Bearer {key}-wrong"}
        assert httpx.post(server.url + CHAT, json=ask(prompt, canvas_length=8), headers=right).status_code == 200
        assert httpx.post(server.url + CHAT, json=ask(prompt), headers=wrong).status_code == 401
        for body in (
            ask(prompt, bta=prompt),
            ask(prompt, decoder=prompt),
            {**ask(prompt), "model": prompt},
            {prompt: 1},
        ):
            assert httpx.post(server.url + CHAT, json=body, headers=right).status_code in (400, 404)
        httpx.post(f"{server.url}/{prompt}?{prompt}={key}", headers=right)
        watch = {"prompt": prompt, "canvas_length": 8}
        assert httpx.post(f"{server.url}/api/watch", json=watch, headers=right).status_code == 200
        metrics = httpx.get(f"{server.url}/metrics", headers=right).text
        assert server.terminate() == 0
        assert "POST /v1/chat/completions 200" in server.log and "POST other 404" in server.log
        for text in (server.log, metrics):
            assert "must-not-leak" not in text and str(folder) not in text


def test_it_binds_to_loopback_unless_told_otherwise() -> None:
    import inspect

    assert inspect.signature(command.serve).parameters["host"].default == "127.0.0.1"
    with command.bind("127.0.0.1", 0) as listening:
        assert listening.getsockname()[0] == "127.0.0.1"


@pytest.mark.parametrize(
    ("host", "allowed", "answers"),
    [
        ("127.0.0.1", (), ("localhost", "127.0.0.1", "[::1]", "127.0.0.1")),
        ("::1", (), ("localhost", "127.0.0.1", "[::1]", "[::1]")),
        ("0.0.0.0", (), None),
        ("0.0.0.0", ("me.example",), ("localhost", "127.0.0.1", "[::1]", "0.0.0.0", "me.example")),
    ],
)
def test_which_hosts_are_answered(host: str, allowed: tuple[str, ...], answers: tuple[str, ...] | None) -> None:
    assert command.hosts(host, allowed) == answers


def test_mistakes_on_the_command_line(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def says(*arguments: str) -> str:
        assert main(["serve", *arguments]) == 2
        return capsys.readouterr().err

    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert "choose another --port" in says("--model", str(folder), "--port", str(taken.getsockname()[1]))
    for option in ("--drain", "--deadline"):
        assert "must be a finite number above 0, not inf" in says("--model", str(folder), option, "inf")
    assert "cannot listen on" in says("--host", "256.1.1.1", "--port", "0")
    assert "did you mean rpd" in says("--model", str(folder), "--port", "0", "--decoder", "rdp")
    assert "no checkpoint folder" in says("--model", "/nowhere/at/all", "--port", "0")
    (tmp_path / "key").write_text("short")
    assert "at least 8 characters" in says("--api-key-file", str(tmp_path / "key"))
    assert "--api-key-file" in says("--api-key-file", str(tmp_path / "none"))
    for key in ("schlüsselchen", "two words", "a line\nand another"):  # no header could carry them
        (tmp_path / "key").write_text(key + "\n")
        assert "no spaces" in says("--api-key-file", str(tmp_path / "key"))


def test_without_the_extra_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["serve"]) == 2
    assert "pip install 'unmask[serve]'" in capsys.readouterr().err


def test_limits_must_make_sense() -> None:
    with pytest.raises(UserError, match="batch must be a finite number above 0"):
        Limits(batch=0)
    for value in (math.inf, math.nan):
        with pytest.raises(UserError, match="drain must be a finite number"):
            Limits(drain=value)
