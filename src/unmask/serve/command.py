"""`unmask serve`: bind, load, serve, and on SIGTERM finish what has begun."""

from __future__ import annotations

import ipaddress
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from typer import Option

from unmask.cli import options as opt
from unmask.errors import UserError

if TYPE_CHECKING:
    import uvicorn

    from unmask.serve.limits import Limits
    from unmask.serve.service import Settings

T = TypeVar("T")


def serve(
    model: opt.ModelName = "tiny",
    host: Annotated[
        str, Option(help="address to listen on; anything but a loopback address opens it to others")
    ] = "127.0.0.1",
    port: Annotated[int, Option(min=0, max=65535, help="0 takes any free one")] = 8000,
    decoder: Annotated[str, Option("--decoder", "-d", help="where a request names none")] = "rpd",
    name: Annotated[str | None, Option(help="what requests call the model; its own name by default")] = None,
    api_key_file: Annotated[
        Path | None, Option(help="a file with the key clients must send (or set UNMASK_API_KEY)")
    ] = None,
    allow_host: Annotated[list[str] | None, Option(help="a further Host name to answer to (repeatable)")] = None,
    batch: Annotated[int, Option(min=1, help="rows decoded together")] = 16,
    queue: Annotated[int, Option(min=1, help="rows that may wait; past it requests get 429")] = 128,
    deadline: Annotated[float, Option(min=0.1, help="seconds a request may take, waiting included")] = 120.0,
    drain: Annotated[float, Option(min=0.1, help="seconds to finish requests after SIGTERM")] = 20.0,
    max_canvas: Annotated[int, Option(min=1, help="longest canvas a request may ask for")] = 1024,
    log_prompts: Annotated[
        bool, Option("--log-prompts", help="write prompts to the log (off: they never are)")
    ] = False,
    device: opt.Device = None,
    dtype: opt.Dtype = None,
    revision: opt.Revision = None,
) -> None:
    """Serve a model: an OpenAI-compatible API under /v1, and a page that shows decodes at /."""
    need_extra()
    from unmask.serve.limits import Limits
    from unmask.serve.service import Settings

    settings = Settings(
        name=name or "", decoder=decoder, api_key=read_key(api_key_file), hosts=hosts(host, allow_host or ()),
        log_prompts=log_prompts,
        limits=Limits(batch=batch, queue=queue, deadline=deadline, drain=drain, canvas=max_canvas),
    )  # fmt: skip
    if not is_loopback(host) and settings.api_key is None:
        opt.warn(f"whoever can reach {host} can use this server: set UNMASK_API_KEY to ask for a key")
    listening = bind(host, port)  # before the model is loaded: a taken port should not cost a minute
    try:
        run(aside(lambda: opt.load_model(model, device, dtype, revision)), settings, listening)
    finally:
        listening.close()


def aside(call: Callable[[], T]) -> T:
    """Call it in a thread that ends. GNU OpenMP keeps a team for every thread that ever computed; once there are more
    of them than cores, all sleep at every barrier. With the model loaded by this thread, the scheduler's steps took
    twice as long."""
    done: Future[T] = Future()

    def work() -> None:
        try:
            done.set_result(call())
        except BaseException as error:
            done.set_exception(error)

    thread = threading.Thread(target=work, name="unmask-load", daemon=True)  # Ctrl-C does not wait for it
    thread.start()
    thread.join()
    return done.result()


def need_extra() -> None:
    from importlib.util import find_spec

    missing = [package for package in ("fastapi", "uvicorn") if find_spec(package) is None]
    if missing:
        raise UserError(f"serving needs {' and '.join(missing)}: pip install 'unmask[serve]'")


def read_key(path: Path | None) -> str | None:
    """From a file or the environment, never from the command line, which other users can list."""
    try:
        key = path.read_text(encoding="utf-8") if path else os.environ.get("UNMASK_API_KEY")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"--api-key-file {path}: {error}") from None
    if key is None:
        return None
    key = key.strip()
    if not (key.isascii() and key.isprintable() and " " not in key):  # a header could not carry it
        raise UserError("the API key may have ASCII letters, digits and signs only, and no spaces")
    if len(key) < 8:
        raise UserError("the API key must have at least 8 characters")
    return key


def is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def hosts(host: str, allowed: Sequence[str]) -> tuple[str, ...] | None:
    """Host headers to answer. A server others are meant to reach answers to any name, unless names are given."""
    from unmask.serve.guard import LOOPBACK

    if is_loopback(host) or allowed:
        return (*LOOPBACK, f"[{host}]" if ":" in host else host, *allowed)
    return None


def bind(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        return listening
    except OSError as error:
        raise UserError(
            f"cannot listen on {host}:{port} ({error.strerror}): choose another --port or --host"
        ) from None


def configure(app: Any, limits: Limits) -> uvicorn.Config:
    import uvicorn

    from unmask.serve.connection import connection

    return uvicorn.Config(
        app, log_config=None, access_log=False, server_header=False, http=connection(limits), loop="asyncio",
        lifespan="on", ws="none",
        limit_concurrency=2 * limits.connections,  # answers in plain text, where Guard's own is not enough
        timeout_graceful_shutdown=int(limits.drain) + 5,
    )  # fmt: skip


def run(model: Any, settings: Settings, listening: socket.socket) -> None:
    import uvicorn

    from unmask.serve.app import create_app

    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(message)s")
    logging.getLogger("uvicorn").setLevel(logging.CRITICAL + 1)  # its tracebacks may quote a prompt; we log our own
    app = create_app(model, settings)
    service = app.state.service
    limits = settings.limits

    class Server(uvicorn.Server):
        def handle_exit(self, sig: int, frame: Any) -> None:
            """New requests are refused from here on, those that have begun are finished."""
            service.scheduler.drain(limits.drain)
            super().handle_exit(sig, frame)

    host, port = listening.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    print(f"unmask serves {service.model.name} on http://{shown}:{port} (API under /v1, page at /)", file=sys.stderr)
    # uvicorn raises the signal that ended it again; a drained server has ended well, so nothing is left to do.
    previous = {sig: signal.signal(sig, lambda *_: None) for sig in (signal.SIGTERM, signal.SIGINT)}
    try:
        Server(configure(app, limits)).run(sockets=[listening])
    finally:
        for sig, handler in previous.items():
            signal.signal(sig, handler)
