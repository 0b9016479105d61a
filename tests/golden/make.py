"""Write the golden forward passes of both backbones.   python tests/golden/make.py

`llada.npz` and `dream.npz` hold, for the tiny configs in `llada.json` and `dream.json`:

    weight.<checkpoint key>   float32, every value exact in bfloat16
    ids [3, 10], mask [3, 10] (1 = keep; left padding of 0, 3 and 6)
    logits, hidden            without a mask: raw unshifted [3, 10, V], un-normalised [L + 1, 3, 10, D]
    masked_logits, masked_hidden   with the mask; rows at padded positions mean nothing

Outputs are computed in float64 (rotary angles in float32) and rounded to float32.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from reference.backbone import forward  # noqa: E402
from reference.published import dream_config, llada_config, tensor_shapes  # noqa: E402

Array = NDArray[Any]


def configs() -> dict[str, dict[str, Any]]:
    llada = llada_config(
        dim=32, layers=4, heads=4, kv_heads=4, mlp=48, rows=104, ids={"mask": 96, "eos": 90, "pad": 90}
    )
    dream = dream_config(
        dim=32, layers=4, heads=4, kv_heads=2, mlp=48, rows=104, ids={"mask": 99, "eos": 80, "pad": 80}
    )
    return {"llada": llada | {"vocab_size": 97}, "dream": dream}  # LLaDA's rows follow embedding_size


def to_bfloat16_grid(x: Array) -> Array:
    """Round float32 to the nearest bfloat16 value, keeping the float32 type."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return rounded.astype(np.uint32).view(np.float32)


def golden_weights(config: dict[str, Any], rng: np.random.Generator) -> dict[str, Array]:
    """Norm weights around one but far from it, non-zero biases, logits of magnitude about three."""
    weights = {}
    for key, shape in tensor_shapes(config).items():
        if len(shape) == 1:
            values = rng.normal(0, 0.5, shape) if key.endswith(".bias") else rng.uniform(0.4, 1.8, shape)
        elif "wte" in key or "embed_tokens" in key:
            values = rng.normal(0, 1.0, shape)
        elif key in ("lm_head.weight", "model.transformer.ff_out.weight"):
            values = rng.normal(0, 2.6 / np.sqrt(shape[1]), shape)
        elif "q_proj" in key or "k_proj" in key:
            values = rng.normal(0, 1.5 / np.sqrt(shape[1]), shape)  # attention far from uniform
        else:
            values = rng.normal(0, 1.3 / np.sqrt(shape[1]), shape)
        weights[key] = to_bfloat16_grid(values.astype(np.float32))
    return weights


def make(config: dict[str, Any], seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    weights = golden_weights(config, rng)
    mask_id, pad_id = config["mask_token_id"], config["pad_token_id"]
    ids = rng.integers(0, 80, (3, 10))
    ids[:, 6:] = np.where(rng.random((3, 4)) < 0.6, mask_id, ids[:, 6:])
    mask = (np.arange(10) >= np.array([[0], [3], [6]])).astype(np.int64)
    ids = np.where(mask == 1, ids, pad_id)

    logits, hidden = forward(config, weights, ids, None, dtype=np.float64)
    masked_logits, masked_hidden = forward(config, weights, ids, mask, dtype=np.float64)
    return {
        **{f"weight.{key}": value for key, value in weights.items()},
        "ids": ids,
        "mask": mask,
        "logits": logits.astype(np.float32),
        "hidden": np.stack(hidden).astype(np.float32),
        "masked_logits": masked_logits.astype(np.float32),
        "masked_hidden": np.stack(masked_hidden).astype(np.float32),
    }


def main() -> None:
    for seed, (family, config) in enumerate(configs().items()):
        (HERE / f"{family}.json").write_text(json.dumps(config, indent=2) + "\n")
        np.savez_compressed(HERE / f"{family}.npz", **make(config, seed))


if __name__ == "__main__":
    main()
