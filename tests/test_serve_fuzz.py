"""The HTTP surface against its own OpenAPI document: no 5xx, no undocumented status, no answer off its schema."""

from __future__ import annotations

# ruff: noqa: E402 (without the extra these tests are skipped before anything is imported)
import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

import checkpoints

schemathesis = pytest.importorskip("schemathesis")

from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

import unmask
from serving import Live, running
from serving import settings as server_settings
from unmask.serve.schemas import ChatRequest, CompletionRequest

EXAMPLES = int(os.environ.get("UNMASK_FUZZ", "10"))  # per operation; more for a long run
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    folder = checkpoints.write_checkpoint(tmp_path_factory.mktemp("fuzz") / "small", "llada", layers=2)
    with running(unmask.load(folder, device="cpu"), server_settings(canvas=16, n=2)) as server:
        yield server


OPERATIONS = [
    "GET /v1/models", "GET /v1/models/{model}", "GET /v1/decoders", "POST /v1/chat/completions",
    "POST /v1/completions", "GET /api/page", "POST /api/watch", "GET /health", "GET /metrics",
]  # fmt: skip


@pytest.fixture(scope="module")
def operations(live: Live) -> dict[str, Any]:
    """Driven through hypothesis directly: schemathesis' own pytest plugin follows pytest's internals."""
    document = schemathesis.openapi.from_url(f"{live.url}/openapi.json")
    found = [result.ok() for result in document.get_all_operations()]
    return {f"{operation.method.upper()} {operation.path}": operation for operation in found}


def test_the_document_lists_every_endpoint(operations: dict[str, Any]) -> None:
    assert set(operations) == set(OPERATIONS)


WITH_INPUT = [name for name in OPERATIONS if name.startswith("POST")]


@pytest.mark.parametrize("name", OPERATIONS)
def test_requests_as_documented(operations: dict[str, Any], name: str) -> None:
    probe(operations[name], GenerationMode.POSITIVE, EXAMPLES if name in WITH_INPUT else 2)


@pytest.mark.parametrize("name", WITH_INPUT)
def test_requests_that_break_the_document(operations: dict[str, Any], name: str) -> None:
    probe(operations[name], GenerationMode.NEGATIVE, EXAMPLES)


def probe(operation: Any, mode: GenerationMode, examples: int) -> None:
    @settings(
        max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck),
        phases=(Phase.explicit, Phase.generate),
    )  # fmt: skip
    @given(case=operation.as_strategy(generation_mode=mode))
    def check(case: Any) -> None:
        get_past_the_door(case)
        case.call_and_validate(checks=CHECKS, timeout=30)

    check()


def get_past_the_door(case: Any) -> None:
    """Generated model names are unknown and generated options are too: half of them should be a bit more likely."""
    body = case.body
    if isinstance(body, dict):
        body.pop("timeout", None)  # whoever asks for a deadline of a millisecond gets a 504, and should
    if not isinstance(body, dict) or not isinstance(body.get("model"), str) or len(body["model"]) % 2:
        return
    body["model"] = "small"
    for key in set(body) - KNOWN:
        del body[key]
    if isinstance(body.get("canvas_length"), int):
        body["canvas_length"] = body["canvas_length"] % 20
    if isinstance(body.get("decoder"), str):
        body["decoder"] = "left-to-right"


KNOWN = {*ChatRequest.model_fields, *CompletionRequest.model_fields}
