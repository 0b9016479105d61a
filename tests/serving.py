"""What the server's tests share: a small model, a server in this process, and one in its own."""

from __future__ import annotations

# ruff: noqa: E402 (without the extra these tests are skipped before anything is imported)
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import unmask
from unmask.models import Model

for package in ("fastapi", "uvicorn", "openai", "httpx"):
    pytest.importorskip(package)

import httpx
import openai
import uvicorn

from unmask.serve.app import create_app
from unmask.serve.command import configure
from unmask.serve.limits import Limits
from unmask.serve.service import Service, Settings

PROMPT = "the user and the system"


def ask(prompt: str = PROMPT, **fields: Any) -> dict[str, Any]:
    """A chat request for the model called `small`, on a canvas short enough for a test."""
    return {"model": "small", "messages": [{"role": "user", "content": prompt}], "canvas_length": 32, **fields}


def slow_request(**fields: Any) -> dict[str, Any]:
    """Hundreds of steps: long enough for something to happen meanwhile."""
    return ask(**{"canvas_length": 400, "decoder": "left-to-right", **fields})


def chat(
    client: openai.OpenAI, prompt: str = PROMPT, *, extra_body: dict[str, Any] | None = None, **fields: Any
) -> Any:
    """The same through OpenAI's client, whose own arguments know nothing of a canvas."""
    request = {"model": "small", "messages": [{"role": "user", "content": prompt}], **fields}
    return client.chat.completions.create(**request, extra_body={"canvas_length": 32, **(extra_body or {})})


def expected(model: Model, prompt: str = PROMPT, decoder: str = "rpd", canvas: int = 32, **options: Any) -> str:
    out = unmask.generate(model, prompt, decoder, canvas_length=canvas, **options)
    assert not isinstance(out, list)
    return out.text


@dataclass
class Live:
    """A server that answers on a real socket."""

    url: str
    service: Service
    server: uvicorn.Server

    @property
    def port(self) -> int:
        return int(self.url.rsplit(":", 1)[1])

    @property
    def idle(self) -> bool:
        return not (self.service.scheduler.running or self.service.scheduler.waiting)

    def client(self, **options: Any) -> openai.OpenAI:
        return openai.OpenAI(base_url=f"{self.url}/v1", api_key="none", max_retries=0, **options)

    def post(self, path: str, **options: Any) -> httpx.Response:
        return httpx.post(self.url + path, timeout=30, **options)

    def get(self, path: str, **options: Any) -> httpx.Response:
        return httpx.get(self.url + path, timeout=30, **options)


@contextmanager
def running(model: Model, settings: Settings | None = None, buffer: int | None = None) -> Iterator[Live]:
    """The application in a thread of this process; `buffer` is how much the kernel takes off its hands."""
    settings = settings or Settings(name="small")
    app = create_app(model, settings)
    listening = socket.create_server(("127.0.0.1", 0))
    if buffer:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer)
    server = uvicorn.Server(configure(app, settings.limits))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    wait_until(lambda: server.started)
    try:
        yield Live(f"http://127.0.0.1:{listening.getsockname()[1]}", app.state.service, server)
    finally:
        server.should_exit = True
        thread.join(15)
        listening.close()
        assert not thread.is_alive(), "the server did not stop"


def settings(**limits: Any) -> Settings:
    return Settings(name="small", limits=Limits(**limits))


def wait_until(condition: Any, seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)


def head(path: str, length: int | str, *more: str) -> bytes:
    lines = (
        f"POST {path} HTTP/1.1",
        "Host: 127.0.0.1",
        "Content-Type: application/json",
        f"Content-Length: {length}",
        *more,
    )
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


class Process:
    """`unmask serve` as a user starts it, on a free port."""

    def __init__(self, folder: Path, *arguments: str, env: dict[str, str] | None = None) -> None:
        command = [sys.executable, "-c", "import sys; from unmask.cli import main; sys.exit(main())"]
        command += ["serve", "--model", str(folder), "--name", "small", "--port", "0", *arguments]
        self.log_lines: list[str] = []
        self.process = subprocess.Popen(
            command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", **(env or {})},
        )  # fmt: skip
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        try:
            wait_until(lambda: self.url or self.process.poll() is not None, 60)
            assert self.url, self.log
            wait_until(lambda: httpx.get(f"{self.url}/health").status_code == 200)
        except BaseException:
            self.__exit__()
            raise

    def read(self) -> None:
        assert self.process.stderr
        for line in self.process.stderr:
            self.log_lines.append(line)

    @property
    def log(self) -> str:
        return "".join(self.log_lines)

    @property
    def url(self) -> str:
        found = re.search(r"http://127\.0\.0\.1:\d+", self.log)
        return found[0] if found else ""

    def terminate(self, timeout: float = 30.0) -> int:
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout)
        self.reader.join(5)
        return code

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.reader.join(5)
        if self.process.stderr:
            self.process.stderr.close()
