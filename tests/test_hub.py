"""Hub names without a hub: a cache laid out as huggingface_hub does it, and a network that is not there."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import huggingface_hub
import pytest
from huggingface_hub import constants

import unmask
from unmask import UserError
from unmask.models import KNOWN, hub, locate

REVISION = "0123456789abcdef0123456789abcdef01234567"
DREAM = next(known for known in KNOWN if known.repo == "Dream-org/Dream-v0-Instruct-7B")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and a hub at a port where nobody listens."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    return tmp_path / "cache"


def fill(cache: Path, repo: str, revision: str, checkpoint: Path, ref: str | None = "main") -> Path:
    """blobs named by their hash, links to them per revision, and a ref that names the revision."""
    home = cache / ("models--" + repo.replace("/", "--"))
    snapshot = home / "snapshots" / revision
    (home / "blobs").mkdir(parents=True)
    snapshot.mkdir(parents=True)
    for number, path in enumerate(sorted(checkpoint.iterdir())):
        blob = home / "blobs" / f"{number:040x}"
        shutil.copy(path, blob)
        (snapshot / path.name).symlink_to(Path("../../blobs") / blob.name)
    if ref:
        (home / "refs").mkdir()
        (home / "refs" / ref).write_text(revision)
    return snapshot


@pytest.mark.parametrize("family", ["llada"], indirect=True)
@pytest.mark.parametrize("revision", [None, "main", REVISION])
def test_a_cached_checkpoint_loads_offline(cache: Path, checkpoint: Path, revision: str | None) -> None:
    fill(cache, "org/name", REVISION, checkpoint)
    model = unmask.load("org/name", revision=revision)
    assert model.name == "org/name"
    assert unmask.generate(model, "Hi", "fast-dllm", canvas_length=32).trace.header["model"] == "org/name"


@pytest.mark.parametrize("family", ["dream"], indirect=True)
def test_the_papers_revision_is_the_default(cache: Path, checkpoint: Path) -> None:
    assert DREAM.revision == "05334cb9faaf763692dcf9d8737c642be2b2a6ae"
    snapshot = fill(cache, DREAM.repo, DREAM.revision, checkpoint, ref=None)  # no ref: only the pin finds it
    assert hub.fetch(DREAM.repo).resolve() == snapshot.resolve()
    with pytest.raises(UserError, match="at revision v2 is not cached"):
        hub.fetch(DREAM.repo, "v2")


def test_the_pins_are_the_papers() -> None:
    pins = {known.repo: known.revision for known in KNOWN if known.revision}
    assert pins["GSAI-ML/LLaDA-8B-Instruct"] == "08b83a6feb34df1a6011b80c3c00c7563e963b07"


@pytest.mark.parametrize("offline", [True, False])
def test_not_cached_and_no_network(offline: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", offline)
    start = time.monotonic()
    with pytest.raises(
        UserError, match=r"org/name is not cached and the hub cannot be reached: connect once"
    ) as caught:
        unmask.load("org/name")
    assert "\n" not in str(caught.value)
    assert time.monotonic() - start < 20


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A hub that answers as the real one does, by status and error code."""
    answers = {"gated": (403, "GatedRepo"), "moved": (404, "RevisionNotFound"), "broken": (500, "")}

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, code = next((a for name, a in answers.items() if name in self.path), (404, "RepoNotFound"))
            self.send_response(status)
            self.send_header("X-Error-Code", code)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_HEAD = do_GET

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        yield
        server.shutdown()


@pytest.mark.parametrize(
    ("repo", "words"),
    [
        ("org/gated", "org/gated is gated: accept its terms"),
        ("org/moved", "org/moved has no revision 'v9': give a commit, branch or tag"),
        ("org/nothing", "org/nothing is not on the hub, or private: check the name"),
        ("GSAI-ML/LLaDA-8B-Instuct", r"not on the hub, or private; did you mean GSAI-ML/LLaDA-8B-Instruct\?$"),
        ("org/broken", "org/broken at revision v9 is not cached and the hub cannot be reached"),
    ],
)
def test_what_the_hub_refuses(answering: None, repo: str, words: str) -> None:
    with pytest.raises(UserError, match=words) as caught:
        unmask.load(repo, revision="v9")
    assert "\n" not in str(caught.value)


def test_a_misspelt_name_without_network() -> None:
    with pytest.raises(UserError, match=r"cannot be reached; did you mean apple/DiffuCoder-7B-Instruct\?$"):
        unmask.load("apple/DiffuCoder-7b-Instruct")


@pytest.mark.parametrize("family", ["llada"], indirect=True)
def test_a_trace_names_the_commit_and_replay_loads_it(cache: Path, checkpoint: Path, tmp_path: Path) -> None:
    from unmask.cli import main

    fill(cache, "org/name", REVISION, checkpoint, ref="v2")
    model = unmask.load("org/name", revision="v2", dtype="bfloat16")
    out = unmask.generate(model, "Hi", "fast-dllm", canvas_length=32)
    assert model.revision == REVISION and out.trace.header["revision"] == REVISION
    out.trace.save(tmp_path / "t.jsonl")
    loaded = []
    load = unmask.models.load
    with pytest.MonkeyPatch.context() as patch:  # there is no "main": only what the trace says finds it
        patch.setattr(unmask.models, "load", lambda *a, **k: loaded.append(load(*a, **k)) or loaded[-1])
        assert main(["replay", str(tmp_path / "t.jsonl"), "-d", "fast-dllm", "--steps", "1"]) == 0
    assert loaded[0].revision == REVISION and loaded[0].net.dtype == model.net.dtype


@pytest.mark.parametrize("family", ["llada"], indirect=True)
def test_an_interrupted_download_is_completed(cache: Path, checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = fill(cache, "org/name", REVISION, checkpoint)
    shard = sorted(snapshot.glob("*.safetensors"))[2]
    blob = shard.readlink()
    shard.unlink()
    with pytest.raises(UserError, match=f"{shard.name} is missing"):  # no network: what is there is named
        unmask.load("org/name")

    def download(*_args: object, local_files_only: bool = False, **_options: object) -> str:
        if not local_files_only:
            shard.symlink_to(blob)
        return str(snapshot)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    assert unmask.load("org/name").spec.layers == unmask.load(checkpoint).spec.layers


@pytest.mark.parametrize(("family", "name"), [
    ("llada", "tokenizer.json"), ("llada", "tokenizer_config.json"), ("dream", "vocab.json"), ("dream", "merges.txt"),
], indirect=["family"])  # fmt: skip
def test_a_download_that_lacks_the_tokenizer_is_completed(
    cache: Path, checkpoint: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = fill(cache, "org/name", REVISION, checkpoint)
    blob = (snapshot / name).readlink()
    (snapshot / name).unlink()
    asked = []

    def download(*_args: object, local_files_only: bool = False, **_options: object) -> str:
        if not local_files_only:
            asked.append(name)
            (snapshot / name).symlink_to(blob)
        return str(snapshot)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    assert unmask.load("org/name").tokenizer.chat_template == unmask.load(checkpoint).tokenizer.chat_template
    assert asked == [name]
    unmask.load("org/name")
    assert asked == [name]  # complete now


@pytest.mark.parametrize("family", ["llada"], indirect=True)
def test_without_network_what_suffices_is_used(
    cache: Path, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = fill(cache, "org/name", REVISION, checkpoint)
    (snapshot / "tokenizer_config.json").unlink()
    assert unmask.load("org/name").revision == REVISION

    def download(*_args: object, local_files_only: bool = False, **_options: object) -> str:
        if not local_files_only:
            raise OSError("a certificate")
        return str(snapshot)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    assert hub.fetch("org/name") == snapshot
    (snapshot / "tokenizer.json").unlink()
    with pytest.raises(UserError, match="hub cannot be reached"):
        hub.fetch("org/name")


@pytest.mark.parametrize("name", ["org/na me", "org/..", "org/-x"])
def test_a_name_the_hub_could_not_have(name: str) -> None:
    with pytest.raises(UserError, match="not a model name"):
        unmask.load(name)


def test_names_that_are_no_hub_names(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"unknown model 'tinny'; did you mean tiny\?"):
        unmask.load("tinny")
    with pytest.raises(UserError, match="no checkpoint folder at"):
        unmask.load(str(tmp_path / "nothing"))
    with pytest.raises(UserError, match="no checkpoint folder at"):
        unmask.load(Path("org/name"))
    with pytest.raises(UserError, match="no checkpoint folder at"):
        unmask.load("./org")


def test_a_folder_wins_over_a_hub_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "org" / "name").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert locate("org/name") == Path("org/name")
    assert locate("org/other") is None
