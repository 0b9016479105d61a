"""The API through OpenAI's own client, and the exact answers it gives."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import openai
import pytest

import checkpoints
import unmask
from serving import PROMPT, Live, chat, expected, running, wait_until
from unmask.guardrails import FIXES
from unmask.models import Model
from unmask.serve.calls import in_fields
from unmask.serve.catalogue import Catalogue
from unmask.serve.limits import Limits
from unmask.serve.service import Service, Settings, public_name
from unmask.trace import Trace


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Model:
    folder = checkpoints.write_checkpoint(tmp_path_factory.mktemp("api") / "folder-name", "llada", layers=6, seed=3)
    return unmask.load(folder, device="cpu")


@pytest.fixture(scope="module")
def live(small: Model) -> Iterator[Live]:
    with running(small) as server:
        yield server


@pytest.fixture(scope="module")
def client(live: Live) -> openai.OpenAI:
    return live.client()


def test_a_chat_completion_is_what_generate_gives(client: openai.OpenAI, small: Model) -> None:
    out = chat(client, extra_body={"decoder": "rpd", "beta": 4})
    assert out.choices[0].message.content == expected(small, beta=4.0)
    assert out.choices[0].message.role == "assistant"
    assert out.model == "small" and out.object == "chat.completion" and out.id.startswith("chatcmpl-")
    header = unmask.generate(small, PROMPT, canvas_length=32).trace.header  # type: ignore[union-attr]
    assert out.usage and out.usage.prompt_tokens == len(header["prompt_ids"])
    assert out.usage.total_tokens == out.usage.prompt_tokens + out.usage.completion_tokens
    told = out.choices[0].model_extra["unmask"]  # type: ignore[index]
    assert told["decoder"] == "rpd" and told["params"]["beta"] == 4.0 and told["nfe"] >= 1


@pytest.mark.parametrize(
    "decoder", ["default", "fast-dllm", "eb-sampler", "lopa", "dapd", "left-to-right", "rpd-paper"]
)
def test_every_decoder_by_name(client: openai.OpenAI, small: Model, decoder: str) -> None:
    out = chat(client, extra_body={"decoder": decoder})
    assert out.choices[0].message.content == expected(small, decoder=decoder)


def test_a_collapsed_decode_is_named_and_counted(client: openai.OpenAI, live: Live, small: Model) -> None:
    out = chat(client, extra_body={"canvas_length": 4, "early_stop": False})
    alone = unmask.generate(small, PROMPT, canvas_length=4)
    assert not isinstance(alone, list)
    wanted = [{**warning.to_json(), "fix": in_fields(warning.fix)} for warning in alone.warnings]
    assert wanted and out.choices[0].model_extra["unmask"]["warnings"] == wanted
    assert f'unmask_warnings_total{{code="{wanted[0]["code"]}"}}' in live.get("/metrics").text


def test_a_remedy_is_told_in_fields_of_a_request() -> None:
    assert in_fields(FIXES["truncated"]) == "give it more room with canvas_length"
    assert in_fields(FIXES["greedy-entropy-order"]) == "set temperature=0.1 top_p=0.9, or use decoder rpd"
    assert not any("-o " in in_fields(fix) or "--" in in_fields(fix) for fix in FIXES.values())


@pytest.mark.parametrize("early", [True, False])
def test_a_stream_adds_up_to_the_answer(client: openai.OpenAI, small: Model, early: bool) -> None:
    usage = {"include_usage": True}
    chunks = list(chat(client, stream=True, stream_options=usage, extra_body={"early_stop": early}))
    assert chunks[0].choices[0].delta.role == "assistant"
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == expected(small)
    reasons = [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices]
    assert reasons[:-1] == [None] * (len(reasons) - 1)
    whole = chat(client)
    assert reasons[-1] == whole.choices[0].finish_reason
    assert chunks[-1].choices == [] and chunks[-1].usage == whole.usage
    assert len({chunk.id for chunk in chunks}) == 1


def test_provisional_tokens_come_only_when_asked_for_and_are_marked(client: openai.OpenAI) -> None:
    plain = chat(client, stream=True, extra_body={"decoder": "fast-dllm"})
    assert not any("provisional" in (c.choices[0].model_extra or {}) for c in plain)
    chunks = chat(client, stream=True, extra_body={"decoder": "fast-dllm", "provisional": True})
    lists = [
        c.choices[0].model_extra["provisional"] for c in chunks if "provisional" in (c.choices[0].model_extra or {})
    ]
    assert lists
    final: dict[int, str] = {}
    for seen in lists:
        positions = [token["position"] for token in seen]
        assert positions == sorted(set(positions))
        for token in seen:
            assert set(token) == {"position", "token", "committed", "confidence", "end"}
            if token["position"] in final:
                assert token["committed"] and token["token"] == final[token["position"]], "committed is final"
            if token["committed"]:
                final[token["position"]] = token["token"]
    assert final


def test_completions_take_raw_prompts_one_or_several(client: openai.OpenAI, small: Model) -> None:
    body = {"decoder": "left-to-right", "canvas_length": 8}
    prompts = ["the user", "and the system"]
    out = client.completions.create(model="small", prompt=prompts, n=2, extra_body=body)
    alone = [unmask.generate(small, p, "left-to-right", canvas_length=8, raw=True).text for p in prompts]  # type: ignore
    assert [choice.text for choice in out.choices] == [alone[0], alone[0], alone[1], alone[1]]
    assert [choice.index for choice in out.choices] == [0, 1, 2, 3]
    streamed = ["", ""]
    for chunk in client.completions.create(model="small", prompt=prompts, stream=True, extra_body=body):
        streamed[chunk.choices[0].index] += chunk.choices[0].text
    assert streamed == alone


def test_usage_counts_a_prompt_once_and_every_answer(client: openai.OpenAI) -> None:
    one, three = chat(client).usage, chat(client, n=3).usage
    assert one and three and three.prompt_tokens == one.prompt_tokens
    assert three.completion_tokens == 3 * one.completion_tokens
    body = {"decoder": "left-to-right", "canvas_length": 8}
    single = client.completions.create(model="small", prompt="the user", extra_body=body).usage
    both = client.completions.create(model="small", prompt=["the user"] * 2, n=2, extra_body=body).usage
    assert single and both and both.prompt_tokens == 2 * single.prompt_tokens, "the same prompt twice is two prompts"
    assert both.completion_tokens == 4 * single.completion_tokens


def test_the_clients_own_stream_helper_and_the_async_client(client: openai.OpenAI, live: Live, small: Model) -> None:
    full = expected(small)
    stop = next(c for c in full[3:] if c.isascii())  # the helper refuses answers that were cut by their length
    body = {"messages": [{"role": "user", "content": PROMPT}], "stop": stop, "extra_body": {"canvas_length": 32}}
    with client.chat.completions.stream(model="small", **body) as stream:  # type: ignore[arg-type]
        assert "".join(e.delta for e in stream if e.type == "content.delta") == full[: full.index(stop)]
        assert stream.get_final_completion().choices[0].message.content == full[: full.index(stop)]

    async def call() -> str:
        async with openai.AsyncOpenAI(base_url=f"{live.url}/v1", api_key="none") as other:
            stream = await other.chat.completions.create(model="small", stream=True, **body)  # type: ignore
            return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

    assert asyncio.run(call()) == full[: full.index(stop)]


def test_seeds_and_sampling(client: openai.OpenAI, small: Model) -> None:
    fields = {"extra_body": {"decoder": "llada-default"}, "temperature": 0.8}
    out = chat(client, n=3, seed=5, **fields)
    wanted = [expected(small, decoder="llada-default", temperature=0.8, seed=5 + i) for i in range(3)]
    assert [choice.message.content for choice in out.choices] == wanted
    assert len(set(wanted)) > 1


def test_a_seed_may_be_any_64_bits(client: openai.OpenAI, small: Model) -> None:
    out = chat(client, seed=-5, temperature=0.8, extra_body={"decoder": "llada-default"})
    assert out.choices[0].message.content == expected(small, decoder="llada-default", temperature=0.8, seed=2**63 - 5)


def test_max_tokens_and_stop(client: openai.OpenAI, small: Model) -> None:
    full = expected(small)
    out = chat(client, max_tokens=5)
    assert out.usage and out.usage.completion_tokens == 5 and out.choices[0].finish_reason == "length"
    assert full.startswith(out.choices[0].message.content or "?")
    assert chat(client, max_completion_tokens=5).choices[0].message == out.choices[0].message
    stop = next(c for c in full[3:] if c.isascii())
    out = chat(client, stop=[stop, "never seen"])
    assert out.choices[0].message.content == full[: full.index(stop)]
    assert out.choices[0].finish_reason == "stop"
    pieces = chat(client, stop=stop, stream=True)
    assert "".join(p.choices[0].delta.content or "" for p in pieces) == full[: full.index(stop)]


def test_content_parts_and_the_developer_role(client: openai.OpenAI, small: Model) -> None:
    messages = [
        {"role": "developer", "content": "the system"},
        {"role": "user", "content": [{"type": "text", "text": "the "}, {"type": "text", "text": "user"}]},
    ]
    out = client.chat.completions.create(model="small", messages=messages, extra_body={"canvas_length": 32})  # type: ignore
    plain = [{"role": "system", "content": "the system"}, {"role": "user", "content": "the user"}]
    assert out.choices[0].message.content == expected(small, plain)  # type: ignore[arg-type]


def test_models_and_the_name_of_a_folder(client: openai.OpenAI, small: Model) -> None:
    assert [model.id for model in client.models.list()] == ["small"]
    assert client.models.retrieve("small").id == "small"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("other")
    with running(small, Settings()) as unnamed:
        assert [model.id for model in unnamed.client().models.list()] == ["folder-name"], (
            "a path is nobody's business"
        )


@pytest.mark.parametrize(
    ("fields", "says", "param"),
    [
        ({"extra_body": {"bta": 4}}, "did you mean beta", "bta"),
        ({"extra_body": {"beta": -1}}, "beta must be 0 or more", ""),
        ({"extra_body": {"beta": "4"}}, "beta must be a number", "beta"),
        ({"extra_body": {"beta": True}}, "beta must be a number", "beta"),
        ({"extra_body": {"beta": [4]}}, "beta must be a number", "beta"),
        ({"extra_body": {"k_max": 1.5}}, "k_max must be a whole number", "k_max"),
        ({"extra_body": {"decoder": "rdp"}}, "did you mean rpd", "decoder"),
        ({"extra_body": {"decoder": "llada-default", "steps": 10**9}}, "steps is at most", "steps"),
        ({"extra_body": {"decoder": "lopa", "branches": 100}}, "branches is at most", "branches"),
        ({"extra_body": {"decoder": "fast-dllm", "block_length": 5}}, "does not divide the canvas", ""),
        ({"extra_body": {"canvas_length": 5000}}, "canvas_length is at most", "canvas_length"),
        ({"extra_body": {"canvas_length": 0}}, "canvas_length", "canvas_length"),
        ({"extra_body": {"timeout": 0}}, "timeout", "timeout"),
        ({"temperature": 0.5}, "takes no temperature", "temperature"),
        ({"top_p": 0.5}, "takes no top_p", "top_p"),
        ({"n": 99}, "at most 8 answers", "n"),
        ({"seed": 2**63}, "seed", "seed"),
        ({"logprobs": True}, "logprobs is not supported", "logprobs"),
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools is not supported", "tools"),
        ({"messages": []}, "messages", "messages"),
        ({"messages": [{"role": "user", "content": " "}]}, "the prompt is empty", ""),
        ({"messages": [{"role": "user", "content": "the " * 20000}]}, "characters; the limit is", "prompt"),
        ({"messages": [{"role": "user", "content": "x"}] * 200}, "at most 128 messages", "messages"),
        ({"messages": [{"role": "user", "content": "x " * 3000}]}, "shorten the prompt", ""),
        ({"messages": [{"role": "tool", "content": "x"}]}, "role", "messages.0.role"),
        ({"messages": [{"role": "user", "content": 5}]}, "a valid string or list", "messages.0.content"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
         "Input should be 'text'", "messages.0.content.0.type"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": "x"}] * 65}]},
         "at most 64 items, not 65", "messages.0.content"),
        ({"messages": [{"role": "assistant", "content": "x", "tool_calls": [{"id": "1"}]}]},
         "tool_calls is not supported", "messages.0.tool_calls"),
        ({"messages": [{"role": "user", "content": "x", "nmae": "Mia"}]}, "'nmae' is not", "messages.0.nmae"),
        ({"messages": [{"role": "user", "content": "x", "x" * 999: 1}]}, "a very long name is not", "messages.0"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": "x", "cache": 1}]}]},
         "'cache' is not supported", "messages.0.content.0.cache"),
        ({"stream": True, "stream_options": {"usage": True}}, "'usage' is not", "stream_options.usage"),
        ({"stop": ["a"] * 5}, "at most 4 items, not 5", "stop"),
        ({"extra_body": {"decoder": "x" * 129}}, "at most 128 characters", "decoder"),
        ({"extra_body": {"x" * 100_000: 1}}, "unknown option of rpd: a name of 100000 characters", ""),
        ({"extra_body": {"__class__": 1}}, "unknown option of rpd '__class__'", "__class__"),
        ({"extra_body": {"fallback": "a\nb"}}, "fallback must be a short word", "fallback"),
        ({"stop": ["a" * 1100]}, "stop sequences", "stop"),
    ],
)  # fmt: skip
def test_mistakes_are_answered_with_a_sentence(client: openai.OpenAI, fields: dict, says: str, param: str) -> None:
    with pytest.raises(openai.BadRequestError) as error:
        chat(client, **fields)
    body = error.value.body
    assert isinstance(body, dict) and set(body) == {"message", "type", "param", "code"}
    assert says in body["message"] and body["type"] == "invalid_request_error"
    assert body["param"] == (param or None)


def test_values_that_ask_for_nothing_are_accepted(client: openai.OpenAI, small: Model) -> None:
    neutral = {"presence_penalty": 0, "frequency_penalty": 0, "logprobs": False, "response_format": {"type": "text"}}
    said = {"role": "user", "content": PROMPT, "name": "Mia", "tool_calls": None, "audio": None, "annotations": []}
    out = chat(client, temperature=0, top_p=1, n=1, user="someone", messages=[said], **neutral)
    assert out.choices[0].message.content == expected(small)


def test_an_unknown_model_is_404_and_never_looked_for(client: openai.OpenAI, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object, **__: object) -> None:
        raise AssertionError("a name from a request was looked up")

    for target in ("unmask.models.load", "unmask.models.locate", "unmask.models.hub.fetch"):
        monkeypatch.setattr(target, forbidden)
    for name in ("org/model", "/etc/passwd", "../../secret", "gpt-4o", "tiny", "~", "C:\\x", "file:///etc/passwd"):
        with pytest.raises(openai.NotFoundError) as error:
            chat(client, model=name)
        assert error.value.code == "model_not_found"


def test_public_names() -> None:
    """A path is nobody's business; what the hub calls a model is what its users call it."""
    assert public_name("GSAI-ML/LLaDA-8B-Instruct") == "GSAI-ML/LLaDA-8B-Instruct"
    assert public_name("/srv/models/mine/") == "mine" and public_name("/gone/for/ever") == "ever"
    assert public_name(".") == Path.cwd().name and public_name("tiny") == "tiny"


def test_a_name_with_a_slash_can_be_asked_for(small: Model) -> None:
    with running(small, Settings(name="org/name")) as live:
        assert live.client().models.retrieve("org/name").id == "org/name"


def test_neither_decoders_nor_pages_are_looked_up_by_a_name_from_a_request(
    live: Live, client: openai.OpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("unmask.decoders._third_party", lambda: opened.append("entry points") or {})
    with pytest.raises(openai.BadRequestError):
        chat(client, extra_body={"decoder": "../../evil"})
    for name in ("..%2f..%2fetc%2fpasswd", "%2e%2e/command.py", "....//x", "app.py", "%00", "index.html%00.js"):
        assert live.get(f"/page/{name}").status_code == 404
    assert not opened


def test_many_different_requests_at_once_are_not_mixed_up(live: Live, small: Model) -> None:
    words = ["the", "user", "and", "system", "assistant", "ing"]
    names = ["rpd", "fast-dllm", "left-to-right", "rpd-block", "lopa", "llada-default"]
    requests = [(" ".join(words[: 1 + i % 6]), names[i % len(names)], 32 if i % 2 else 64) for i in range(16)]
    client = live.client()

    def call(request: tuple[str, str, int]) -> str | None:
        prompt, decoder, canvas = request
        out = chat(client, prompt, extra_body={"decoder": decoder, "canvas_length": canvas})
        return out.choices[0].message.content

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(call, requests))
    assert answers == [expected(small, *request) for request in requests]


def test_the_page_gets_the_trace_file_line_by_line(live: Live, small: Model) -> None:
    body = {"prompt": PROMPT, "decoder": "rpd", "canvas_length": 32, "options": {"beta": 2}, "seed": 1}
    lines = live.post("/api/watch", json=body).text.splitlines()
    kinds = [next(iter(json.loads(line))) for line in lines]
    assert kinds[0] == "format" and kinds[-3:] == ["warnings", "format", "end"]
    assert set(kinds[1:-3]) == {"pieces", "step"}
    steps = [line for line in lines if line.startswith('{"step"')]
    told = Trace.parse("\n".join([lines[-2], *steps, lines[-1]]))
    alone = unmask.generate(small, PROMPT, "rpd", canvas_length=32, beta=2.0, seed=1)
    assert told.header == {**alone.trace.header, "model": "small"}  # type: ignore[union-attr]
    assert json.loads(lines[-3])["warnings"] == [warning.to_json() for warning in alone.warnings]  # type: ignore
    assert (told.commit_steps() == alone.trace.commit_steps()).all()  # type: ignore[union-attr]
    pieces = {k: v for line in lines if '{"pieces"' in line for k, v in json.loads(line)["pieces"].items()}
    assert pieces.items() <= told.header["pieces"].items()


def test_a_third_partys_broken_decoder_does_not_keep_the_others_away(
    small: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load() -> None:
        raise ImportError("its own mistake")

    broken = SimpleNamespace(name="broken", value="broken:Broken", load=load)
    monkeypatch.setattr("unmask.decoders._third_party", lambda: {"broken": broken})
    catalogue = Catalogue(small, Limits())
    assert "rpd" in catalogue.entries and "broken" not in catalogue.entries


def test_what_the_page_is_told(live: Live) -> None:
    page = live.get("/api/page").json()
    names = [decoder["name"] for decoder in page["decoders"]]
    assert {"rpd", "llada-default", "fast-dllm", "rpd-paper"} <= set(names)
    options = {o["name"]: o for d in page["decoders"] if d["name"] == "rpd" for o in d["options"]}
    assert options["beta"] == {
        "name": "beta", "type": "float", "nullable": True, "default": None, "resolved": 4.0, "choices": [],
        "doc": options["beta"]["doc"],
    }  # fmt: skip
    for decoder in page["decoders"]:
        for option in decoder["options"]:
            assert option["doc"], f"{decoder['name']}: {option['name']} is not explained"
    assert page["examples"] and page["routes"] and page["reasons"]


def test_the_examples_are_the_models_whatever_it_is_called() -> None:
    tiny = unmask.load("tiny", device="cpu")
    assert Service(tiny, Settings(name="my-model")).examples == Service(tiny, Settings()).examples
    assert {example["kind"] for example in Service(tiny, Settings()).examples} == {"word problem", "function"}


def test_health_and_metrics(live: Live, client: openai.OpenAI) -> None:
    chat(client)
    assert live.get("/health").json()["status"] == "ok"
    answer = live.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    values = {}
    for line in answer.text.splitlines():
        if not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            values[name] = float(value)
    assert values['unmask_requests_total{path="/v1/chat/completions",status="200"}'] >= 1
    live.service.metrics.counters["unmask_forwards_total"] += 123_456_789
    assert f"{live.service.metrics.counters['unmask_forwards_total']}\n" in live.get("/metrics").text, "every digit"
    assert values["unmask_tokens_total"] >= 1 and values["unmask_steps_total"] >= 1
    assert values['unmask_step_seconds_bucket{le="+Inf"}'] == values["unmask_step_seconds_count"]
    wait_until(lambda: live.idle)


def test_the_openapi_document_names_errors_as_they_are(live: Live) -> None:
    document = live.get("/openapi.json").json()
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert "422" not in operation["responses"], f"{method} {path}: validation errors are 400 here"
