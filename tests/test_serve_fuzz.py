"""The HTTP surface against its own OpenAPI document: no 5xx, no undocumented status, no answer off its schema."""

from __future__ import annotations

# ruff: noqa: E402 (without the extra these tests are skipped before anything is imported)
import os
from collections.abc import Iterator
from types import NoneType
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import checkpoints

schemathesis = pytest.importorskip("schemathesis")

import httpx
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

import unmask
from helpers import tiny_spec
from serving import Live, running
from serving import settings as server_settings
from unmask import decoders
from unmask.serve.catalogue import option_types
from unmask.serve.option_docs import CHOICES
from unmask.serve.schemas import ChatRequest, CompletionRequest, WatchRequest

EXAMPLES = int(os.environ.get("UNMASK_FUZZ", "10"))  # per operation; more for a long run
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    folder = checkpoints.write_checkpoint(tmp_path_factory.mktemp("fuzz") / "small", "llada", layers=2)
    with running(unmask.load(folder, device="cpu"), server_settings(canvas=64, n=2)) as server:
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
    @seed(2026)
    @settings(
        max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck),
        phases=(Phase.explicit, Phase.generate),
    )  # fmt: skip
    @given(case=operation.as_strategy(generation_mode=mode), chosen=choices())
    def check(case: Any, chosen: dict[str, Any]) -> None:
        get_past_the_door(case, chosen)
        answer = case.call_and_validate(checks=CHECKS, timeout=30)
        assert '"server_error"' not in answer.text, "an error after the answer had begun"

    check()


def get_past_the_door(case: Any, chosen: dict[str, Any]) -> None:
    """Generated names of models, decoders and options are unknown: half of them should be a bit more likely."""
    body = case.body
    if isinstance(body, dict):
        body.pop("timeout", None)  # whoever asks for a deadline of a millisecond gets a 504, and should
    watch = case.operation.path == "/api/watch"
    told = body.get("prompt" if watch else "model") if isinstance(body, dict) else None
    if not isinstance(told, str) or len(told) % 2:
        return
    for key in set(body) - KNOWN:
        del body[key]
    body |= addressed(chosen, watch)


KNOWN = {*ChatRequest.model_fields, *CompletionRequest.model_fields, *WatchRequest.model_fields}

# --- decoders and their options -----------------------------------------------------------------------------

CATALOGUE = {name: option_types(decoders.find(name, tiny_spec())[0]) for name in decoders.names()}
VALUES: dict[type, st.SearchStrategy[Any]] = {
    bool: st.booleans(),
    int: st.sampled_from([0, 1, 2, 3, 5, 8, 16, 32, 64, 100, -1, 4097, 2**31, 2**63, 10**30]),
    float: st.sampled_from([
        0, 1, 0.5, 0.9, 0.999, 2, 50.0, 1e-3, 1e-6, 1e-7, 1e-38, 1e-300, 5e-324, 1e3, 1e30, 1e300, 1e308, -0.0, -1,
        -1e308, "inf", "-inf",
    ]),
    str: st.sampled_from(["", "x", "entropy"]),
    NoneType: st.none(),
}  # fmt: skip


@st.composite
def choices(draw: st.DrawFn) -> dict[str, Any]:
    """A decoder of the catalogue with up to two of its options, whose values have the right type and any size."""
    name = draw(st.sampled_from(sorted(CATALOGUE)))
    types = CATALOGUE[name]
    options = draw(st.lists(st.sampled_from(sorted(types)), max_size=2, unique=True)) if types else []
    values = {key: draw(value_of(key, types[key])) for key in options}
    return {"decoder": name, "canvas_length": draw(st.sampled_from([32, 64])), "options": values}


def value_of(key: str, types: tuple[type, ...]) -> st.SearchStrategy[Any]:
    words = [st.sampled_from(CHOICES[key])] if key in CHOICES else []
    return st.one_of(*words, *(VALUES[kind] for kind in types))


def addressed(chosen: dict[str, Any], watch: bool) -> dict[str, Any]:
    if watch:
        return chosen
    return {"model": "small", **{k: v for k, v in chosen.items() if k != "options"}, **chosen["options"]}


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/api/watch"])
def test_any_decoder_with_any_options_decodes_or_is_refused(live: Live, path: str) -> None:
    watch, client = path == "/api/watch", httpx.Client(base_url=live.url, timeout=60)
    decoded = 0

    @seed(2026)
    @settings(max_examples=5 * EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(chosen=choices(), prompt=st.sampled_from(["the user", "and", "the 7"]), stream=st.booleans(), number=seeds)
    def check(chosen: dict[str, Any], prompt: str, stream: bool, number: int) -> None:
        nonlocal decoded
        messages = {"messages": [{"role": "user", "content": prompt}], "stream": stream}
        body = {**({"prompt": prompt} if watch else messages), "seed": number, **addressed(chosen, watch)}
        answer = client.post(path, json=body)
        assert answer.status_code in (200, 400) and '"server_error"' not in answer.text, (body, answer.text[-300:])
        decoded += answer.status_code == 200

    check()
    client.close()
    assert decoded >= EXAMPLES, "most were refused: nothing was tested"


# Each decoder once, not its presets.
OWN = {cls.name: cls for cls, *_ in (decoders.find(name, tiny_spec()) for name in decoders.names())}
EXTREME = (0, 1e-300, 1e-38, 1e-6, 1.0, 1e30, 1e308, "inf")


@pytest.mark.parametrize("name", sorted(OWN))
def test_every_number_at_its_extremes_decodes_or_is_refused(live: Live, name: str) -> None:
    """Chance would take thousands of requests to come by these."""
    with httpx.Client(base_url=live.url, timeout=60) as client:
        for option, types in option_types(OWN[name]).items():
            for value in EXTREME if float in types else ():
                body = {"prompt": "the user", "decoder": name, "canvas_length": 32, "options": {option: value}}
                answer = client.post("/api/watch", json=body)
                assert answer.status_code in (200, 400), (option, value)
                assert '"server_error"' not in answer.text, (option, value, answer.text[-300:])


seeds = st.sampled_from([0, 1, 2**63 - 1])
