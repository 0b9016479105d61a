"""Several rows through a backbone such that each gets the states it has alone.

Side by side, rows need padding, and on a CPU padding changes the order in which attention sums are added up. So
there every row's attention runs over exactly its own keys:

    small models   row by row, several rows at a time on one core each: activations stay in the core's cache, and
                   one barrier per forward replaces one per matrix product
    large models   rows end to end, so that the weights are read once for all of them

Bit for bit, where a row alone has one thread too; more threads cut vectors elsewhere, and a vector's tail is rounded
otherwise. A GPU picks its kernels by the batch's shape anyway: there rows lie side by side, padding an ignored key.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from unmask.models.backbone import Backbone, Block

SMALL = 100_000_000  # parameters
MOST = 8  # threads


def batch_states(net: Any, ids: Tensor, lengths: Sequence[int], keep_from: int) -> list[Any]:
    """ids (B, T), row i padded on the right from lengths[i] on -> L+1 states (B, T, D), as Backbone.states.

    What stands where there is padding means nothing."""
    if len(lengths) == 1:
        return net.states(ids, None, keep_from)
    if isinstance(net, Backbone) and net.device.type == "cpu":
        return (row_by_row if is_small(net) else end_to_end)(net, ids, lengths, keep_from)
    return net.states(ids, padding_mask(ids, lengths), keep_from)


def is_small(net: Any) -> bool:
    return net.device.type == "cpu" and sum(p.numel() for p in net.parameters()) < SMALL


def padding_mask(ids: Tensor, lengths: Sequence[int]) -> Tensor | None:
    """1 = keep; None where every row is as long as the batch is wide."""
    if min(lengths) == ids.shape[1]:
        return None
    return torch.arange(ids.shape[1], device=ids.device)[None] < torch.tensor(lengths, device=ids.device)[:, None]


def row_by_row(net: Backbone, ids: Tensor, lengths: Sequence[int], keep_from: int) -> list[Any]:
    def states(row: int) -> list[Any]:
        with torch.inference_mode():  # a thread's own setting
            return net.states(ids[row : row + 1, : lengths[row]], None, keep_from)

    rows = sorted(range(len(lengths)), key=lambda row: -lengths[row])  # the longest first: nobody waits for it
    threads = torch.get_num_threads()
    if threads == 1:  # or this is a thread that shares the cores with others already
        found = [states(row) for row in rows]
    else:
        torch.set_num_threads(1)  # here as well: MKL's number of threads is the whole process's
        try:
            found = list(team(min(threads, MOST)).map(states, rows))
        finally:
            torch.set_num_threads(threads)
    of = dict(zip(rows, found, strict=True))
    return [stack([of[row][layer] for row in range(len(rows))], ids.shape[1]) for layer in range(len(found[0]))]


def stack(parts: Sequence[Any], width: int) -> Any:
    """(1, length, D) each -> (B, width, D); None where the layer was not kept."""
    if parts[0] is None:
        return None
    whole = parts[0].new_zeros((len(parts), width, parts[0].shape[-1]))
    for row, part in enumerate(parts):
        whole[row, : part.shape[1]] = part[0]
    return whole


@functools.cache
def team(workers: int) -> ThreadPoolExecutor:
    """Threads that compute on one core each."""

    def begin() -> None:
        torch.get_num_threads()  # a thread's first question sets its number to the process's: ask before ours is set
        torch.set_num_threads(1)

    return ThreadPoolExecutor(workers, "unmask-rows", initializer=begin)


def end_to_end(net: Backbone, ids: Tensor, lengths: Sequence[int], keep_from: int) -> list[Any]:
    """Matrix products over all rows at once, attention within each row's stretch."""
    positions = torch.cat([torch.arange(length) for length in lengths])[None]
    cos, sin = net.rotary.tables(positions, net.dtype)
    x = net.embed(torch.cat([ids[row, :length] for row, length in enumerate(lengths)]))[None]
    hidden: list[Any] = [x if keep_from == 0 else None]
    for layer in range(1, net.spec.layers + 1):
        x = block_end_to_end(net.block(layer - 1), x, cos, sin, lengths)
        hidden.append(x if layer >= keep_from else None)
    return [x if x is None else stack(x.split(list(lengths), dim=1), ids.shape[1]) for x in hidden]


def block_end_to_end(block: Block, x: Tensor, cos: Tensor, sin: Tensor, lengths: Sequence[int]) -> Tensor:
    """Block.forward with attention inside each row's stretch only."""
    parts = [part.split(list(lengths), dim=2) for part in block.project(x, cos, sin)]
    mixed = [attend_alone(block, q, k, v) for q, k, v in zip(*parts, strict=True)]
    x = x + block.out(torch.cat(mixed, dim=2).transpose(1, 2).flatten(2))
    gate, up = block.gate_up(block.mlp_norm(x)).chunk(2, dim=-1)
    return x + block.down(F.silu(gate) * up)


def attend_alone(block: Block, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """One row's attention over as many queries as Backbone.states takes: on some CPUs their number decides how the
    sums of each are rounded."""
    length = q.shape[2]
    q = F.pad(q, (0, 0, 0, block.qkv.spare(length)))
    return F.scaled_dot_product_attention(q, k, v, enable_gqa=block.kv_heads != block.heads)[:, :, :length]
