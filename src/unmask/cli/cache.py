"""Whether a hub checkpoint is on this machine, without asking the network."""

from __future__ import annotations

import json
from pathlib import Path


def cached(repo: str, revision: str | None) -> str:
    """`cached`, `incomplete` (some of the files) or `-`."""
    from huggingface_hub import try_to_load_from_cache

    from unmask.models.hub import has_vocabulary

    def find(name: str) -> Path | None:
        path = try_to_load_from_cache(repo, name, revision=revision)
        return Path(path) if isinstance(path, str) else None

    if not find("config.json"):
        return "-"
    index = find("model.safetensors.index.json")
    try:
        files = set(json.loads(index.read_text())["weight_map"].values()) if index else {"model.safetensors"}
    except (OSError, ValueError, KeyError, AttributeError):
        return "incomplete"
    there = all(find(name) for name in files) and has_vocabulary(find) and find("tokenizer_config.json")
    return "cached" if there else "incomplete"
