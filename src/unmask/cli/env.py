"""`unmask env`: what an issue needs to know about a machine."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version

from unmask.cli.options import Json, print_json

CORE = ("safetensors", "tokenizers", "huggingface_hub", "jinja2", "numpy", "typer", "rich")
EXTRAS = ("triton", "transformers", "math-verify", "matplotlib", "fastapi", "uvicorn", "ray", "lm_eval")
VARIABLES = ("CUDA_VISIBLE_DEVICES", "HF_HOME", "HF_HUB_OFFLINE", "OMP_NUM_THREADS", "UNMASK_DATA")


def env(json: Json = False) -> None:
    """Print versions and hardware, ready to paste into an issue."""
    found = facts()
    if json:
        print_json(found)
        return
    width = max(map(len, found))
    for name, value in found.items():
        print(f"{name:{width}}  {value}")


def facts() -> dict[str, str]:
    from unmask import __version__

    return {
        "unmask": __version__,
        "python": f"{platform.python_version()} ({platform.python_implementation()})",
        "platform": f"{platform.system()} {platform.release()} {platform.machine()}, {os.cpu_count()} CPUs",
        **torch_facts(),
        **{name: installed(name) or "missing" for name in CORE},
        **{name: found for name in EXTRAS if (found := installed(name))},
        **{name: os.environ[name] for name in VARIABLES if name in os.environ},
    }


def torch_facts() -> dict[str, str]:
    try:
        import torch
    except Exception as error:  # a broken install is exactly what this block is pasted for
        return {"torch": f"cannot be imported: {error}"}
    found = {"torch": f"{torch.__version__}, {torch.get_num_threads()} threads"}
    if not torch.cuda.is_available():
        built = f"built for {torch.version.cuda}, no device" if torch.version.cuda else "not in this build"
        return {**found, "cuda": built}
    for n in range(torch.cuda.device_count()):
        device = torch.cuda.get_device_properties(n)
        found[f"cuda:{n}"] = f"{device.name}, {device.total_memory / 2**30:.0f} GiB, CUDA {torch.version.cuda}"
    return found


def installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
