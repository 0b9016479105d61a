"""The page's files, read once when the server starts: no name from a request ever reaches the file system."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.resources import files

from fastapi import APIRouter, Request
from fastapi.responses import Response

from unmask.serve.errors import ApiError

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True)
class Asset:
    body: bytes
    type: str
    tag: str


def load_assets() -> dict[str, Asset]:
    assets = {}
    for entry in files("unmask.serve").joinpath("page").iterdir():
        suffix = entry.name[entry.name.rfind(".") :]
        if suffix in TYPES:
            body = entry.read_bytes()
            assets[entry.name] = Asset(body, TYPES[suffix], f'"{hashlib.sha256(body).hexdigest()[:16]}"')
    return assets


def router() -> APIRouter:
    api, assets = APIRouter(include_in_schema=False), load_assets()

    def answer(name: str, request: Request) -> Response:
        asset = assets.get(name)
        if asset is None:
            raise ApiError(404, "no such file")
        headers = {"ETag": asset.tag, "Cache-Control": "no-cache"}
        if request.headers.get("if-none-match") == asset.tag:
            return Response(status_code=304, headers=headers)
        return Response(asset.body, media_type=asset.type, headers=headers)

    @api.get("/")
    async def index(request: Request) -> Response:
        return answer("index.html", request)

    @api.get("/favicon.ico")
    async def favicon(request: Request) -> Response:
        return answer("mark.svg", request)

    @api.get("/page/{name}")
    async def asset(name: str, request: Request) -> Response:
        return answer(name, request)

    return api
