"""What a result depends on beside its settings: versions, hardware, and which weights exactly."""

from __future__ import annotations

import hashlib
import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

EDGE = 1 << 16  # bytes hashed at either end of a weight file: shards of 16 GB are not read twice


def versions() -> dict[str, str]:
    packages = ("unmask", "torch", "numpy", "tokenizers", "safetensors", "math-verify", "ray", "triton")
    found = {"python": platform.python_version()}
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def hardware(device: Any) -> dict[str, Any]:
    """`device` names the accelerator, or the processor where there is none."""
    import torch

    device = torch.device(device)
    facts: dict[str, Any] = {
        "device": cpu_name(),
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "platform": platform.platform(),
    }
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        facts |= {
            "device": properties.name,
            "memory": properties.total_memory,
            "cuda": torch.version.cuda,
        }
    return facts


def cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def fingerprint(folder: Path) -> str:
    """A digest of the checkpoint: config, and size, first and last bytes of every weight file."""
    sha = hashlib.sha256()
    for path in sorted([folder / "config.json", *folder.glob("*.safetensors")]):
        size = path.stat().st_size
        sha.update(f"{path.name} {size}\n".encode())
        with path.open("rb") as handle:
            sha.update(handle.read(EDGE))
            handle.seek(max(0, size - EDGE))
            sha.update(handle.read(EDGE))
    return sha.hexdigest()
