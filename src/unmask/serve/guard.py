"""The outermost layer: everything that is decided before a request is understood, and headers on every answer.

Plain ASGI rather than a framework's middleware, because bodies are bounded while they arrive.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import re
import time
import uuid
from collections.abc import Iterable
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from unmask.serve.errors import ApiError, crowded, failed, told
from unmask.serve.limits import CONNECTIONS, Limits
from unmask.serve.metrics import Metrics

log = logging.getLogger("unmask.serve")

SECURITY = {
    # Nothing but our own files: no inline script or style, no frames, no forms, no other hosts.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}
# Without a key these are open: they tell nothing that a client could not find out by connecting.
OPEN = ("/", "/health", "/favicon.ico")
KNOWN = (
    "/", "/health", "/metrics", "/openapi.json", "/v1/models", "/v1/chat/completions", "/v1/completions",
    "/v1/decoders", "/api/page", "/api/watch",
)  # fmt: skip
DECODING = ("/v1/chat/completions", "/v1/completions", "/api/watch")
CLOSE = {"Connection": "close"}
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
HOST = re.compile(r"(?P<name>[a-z0-9._-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?", re.IGNORECASE)


class Broken(Exception):
    """An answer that has begun cannot be finished: the server cuts the connection, the only honest end."""


class Guard:
    def __init__(
        self, app: ASGIApp, limits: Limits, metrics: Metrics, api_key: str | None, hosts: Iterable[str] | None
    ) -> None:
        self.app, self.limits, self.metrics = app, limits, metrics
        self.key = None if api_key is None else digest(api_key)
        self.hosts = None if hosts is None else frozenset(host.lower() for host in hosts)
        # Names given by hand: a reverse proxy may pass on its own idea of the Host, but a page's Origin stays.
        self.named = (self.hosts or frozenset()) - frozenset(LOOPBACK)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            await self.http(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def http(self, scope: Scope, receive: Receive, send: Send) -> None:
        reply = Reply(send)
        start = time.perf_counter()
        try:
            if len(scope.get("state", {}).get(CONNECTIONS, ())) > self.limits.connections:
                raise crowded()
            self.admit(scope)
            # HEAD is a GET whose body the server leaves out.
            asked = {**scope, "method": "GET"} if scope["method"] == "HEAD" else scope
            await self.app(asked, await self.read(scope, receive), reply)
        except ApiError as error:
            await reply.error(error, scope, receive)
        except Exception as error:
            log.error("%s failed with %s", reply.id, told(error))
            await reply.error(failed("internal error", "internal_error"), scope, receive)
        finally:
            self.note(scope, reply, time.perf_counter() - start)

    def note(self, scope: Scope, reply: Reply, seconds: float) -> None:
        """Paths we do not know are not spelled out: a log or a metric is no place for a stranger's text."""
        path = (
            scope["path"] if scope["path"] in KNOWN else "/page/*" if scope["path"].startswith("/page/") else "other"
        )
        self.metrics.count_request(path, reply.status, seconds, path in DECODING)
        level = logging.DEBUG if path in ("/health", "/metrics") else logging.INFO
        method = scope["method"] if scope["method"] in ("GET", "POST", "HEAD", "OPTIONS") else "?"
        log.log(level, "%s %s %s %d in %.3f s", reply.id, method, path, reply.status, seconds)

    def admit(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        size = sum(len(name) + len(value) for name, value in headers.raw)
        if len(headers.raw) > self.limits.headers or size > self.limits.header_bytes:
            raise ApiError(431, "too many headers, or too long ones", "headers_too_large", headers=dict(CLOSE))
        if "content-length" in headers and "transfer-encoding" in headers:
            # A proxy before us may have gone by the other one: nothing else on this connection can be trusted.
            message = "a request has a Content-Length or a Transfer-Encoding, not both"
            raise ApiError(400, message, "ambiguous_length", headers=dict(CLOSE))
        host = headers.get("host", "")
        if self.hosts is not None and hostname(host) not in self.hosts:
            # A page elsewhere may point its own name at 127.0.0.1; it cannot change the Host header.
            raise ApiError(403, "this Host is not served here: see --allow-host", "host_not_allowed")
        if scope["method"] == "POST" and any(self.foreign(origin, host) for origin in headers.getlist("origin")):
            raise ApiError(403, "requests from other sites are not answered", "origin_not_allowed")
        path = scope["path"]
        if self.key is not None and path not in OPEN and not path.startswith("/page/"):
            scheme, _, given = headers.get("authorization", "").partition(" ")
            # Digests have one length, so that the comparison takes the same time whatever was sent.
            if scheme.lower() != "bearer" or not hmac.compare_digest(digest(given), self.key):
                challenge = {"WWW-Authenticate": "Bearer"}
                raise ApiError(401, "a valid API key is needed", "invalid_api_key", headers=challenge)

    def foreign(self, origin: str, host: str) -> bool:
        place = origin.partition("://")[2]
        return place != host and hostname(place) not in self.named

    async def read(self, scope: Scope, receive: Receive) -> Receive:
        """The whole body, bounded in size and time; then a `receive` that replays it."""
        declared = Headers(scope=scope).get("content-length", "")
        if declared.isdigit() and int(declared[:20]) > self.limits.body_bytes:
            raise self.too_large()
        body = bytearray()
        try:
            async with asyncio.timeout(self.limits.body_timeout):
                more = True
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return replay(message)
                    body += message.get("body", b"")
                    more = message.get("more_body", False)
                    if len(body) > self.limits.body_bytes:
                        raise self.too_large()
        except TimeoutError:
            raise ApiError(408, "the body did not arrive in time", "body_timeout") from None
        return replay({"type": "http.request", "body": bytes(body), "more_body": False}, receive)

    def too_large(self) -> ApiError:
        return ApiError(413, f"the body is larger than {self.limits.body_bytes} bytes", "body_too_large")


class Reply:
    """`send` with our headers; knows whether the answer has begun."""

    def __init__(self, send: Send) -> None:
        self.send = send
        self.id, self.status = f"req-{uuid.uuid4().hex[:16]}", 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            headers["x-request-id"] = self.id
            for name, value in SECURITY.items():
                headers[name] = value
            headers.setdefault("Cache-Control", "no-store")
        await self.send(message)

    async def error(self, error: ApiError, scope: Scope, receive: Receive) -> None:
        if self.status:
            raise Broken from error
        if error.status in (408, 413):
            error.headers |= CLOSE  # the rest of the body is not read
        await error.response()(scope, receive, self)


def replay(first: Message, receive: Receive | None = None) -> Receive:
    pending: list[Any] = [first]

    async def again() -> Message:
        if pending:
            return pending.pop()
        return await receive() if receive else {"type": "http.disconnect"}

    return again


def digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def hostname(host: str) -> str:
    """Without the port: `localhost:8000`, `[::1]:8000`; nothing where it is not a name and a port."""
    found = HOST.fullmatch(host)
    return found["name"].lower() if found else ""
