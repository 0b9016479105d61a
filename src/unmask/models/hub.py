"""Checkpoints from the hub: only the files we read, a pinned revision, and offline when cached."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path

from unmask.errors import UserError

FILES = [
    "config.json", "unmask.json", "*.safetensors", "model.safetensors.index.json", "tokenizer.json",
    "tokenizer_config.json", "vocab.json", "merges.txt", "added_tokens.json", "chat_template.jinja",
]  # fmt: skip


def fetch(repo: str, revision: str | None = None) -> Path:
    """The local snapshot of `repo`. A revision that is cached in full is used without asking the network."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    from unmask.models import KNOWN

    pinned = {known.repo: known.revision for known in KNOWN}
    revision = revision or pinned.get(repo)
    cached = None
    try:
        cached = Path(snapshot_download(repo, revision=revision, allow_patterns=FILES, local_files_only=True))
        if complete(cached):
            return cached
    except HFValidationError as error:
        raise UserError(f"{repo!r} is not a model name: {error}") from None
    except LocalEntryNotFoundError:
        pass  # not cached: try the network
    try:
        return Path(snapshot_download(repo, revision=revision, allow_patterns=FILES))
    except Exception as error:  # no route, a proxy, a certificate: each HTTP library has its own family of errors
        if cached and usable(cached):
            return cached
        raise UserError(_told(error, repo, revision)) from None


def _told(error: Exception, repo: str, revision: str | None) -> str:
    """Why a download failed, and what to do about it."""
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    from unmask.models import KNOWN

    known = [each.repo for each in KNOWN]
    near = [] if repo in known else get_close_matches(repo, known, n=1, cutoff=0.8)
    meant = f"; did you mean {near[0]}?" if near else ""
    if isinstance(error, GatedRepoError):
        return f"{repo} is gated: accept its terms on its page at the hub, then log in with hf auth login"
    if isinstance(error, RepositoryNotFoundError):
        return f"{repo} is not on the hub, or private{meant or ': check the name, or log in with hf auth login'}"
    if isinstance(error, RevisionNotFoundError):
        return f"{repo} has no revision {revision!r}: give a commit, branch or tag that it has"
    at = f" at revision {revision}" if revision else ""
    if isinstance(error, HfHubHTTPError):
        return f"{repo}{at} could not be downloaded: {_first_line(error)}"
    advice = meant or f": connect once, or give a local folder ({_first_line(error)})"
    return f"{repo}{at} is not cached and the hub cannot be reached{advice}"


def complete(snapshot: Path) -> bool:
    """An interrupted download leaves a snapshot that lacks shards, or the tokenizer. A repository may have no
    tokenizer_config.json: its snapshot is used as it is once the hub has been asked."""
    return usable(snapshot) and (snapshot / "tokenizer_config.json").exists()


def usable(snapshot: Path) -> bool:
    from unmask.models.checkpoint import weight_files

    def there(name: str) -> bool:
        return (snapshot / name).exists()

    try:
        return there("config.json") and bool(weight_files(snapshot)) and has_vocabulary(there)
    except UserError:
        return False


def has_vocabulary(there: Callable[[str], object]) -> bool:
    """Given which files there are: LLaDA's tokenizer, or Dream's."""
    return bool(there("tokenizer.json") or (there("vocab.json") and there("merges.txt")))


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
