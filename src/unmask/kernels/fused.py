"""One pass over the logits: argmax, confidence, log-sum-exp and entropy, in Triton. No softmax is ever stored.

Each row is cut into pieces that are reduced side by side (256 rows alone would leave a large GPU half idle), and a
second, tiny kernel joins the pieces. With m the running maximum, the state of a piece is

    s = sum exp(z - m)        u = sum exp(z - m) (z - m)        =>   ln Z = m + ln s,   H = ln s - u / s

and moving m to m' turns u into exp(m - m') (u + (m - m') s): entropy without cancellation, however large the
logits. Ids that may not be chosen take part in every sum and in no argmax, so nothing is copied to exclude them.
"""

from __future__ import annotations

import functools

import torch
from torch import Tensor

try:
    import triton
    import triton.language as tl
except ImportError:  # CPU builds of torch come without it
    triton = None

BLOCK = 2048
PIECES = 8


@functools.cache
def available() -> bool:
    return triton is not None


if triton is not None:

    @triton.jit
    def _reduce(
        z_ptr, stride, vocabulary, mask_id, limit,
        best_ptr, token_ptr, m_ptr, s_ptr, u_ptr,
        piece: tl.constexpr, BLOCK: tl.constexpr, PIECES: tl.constexpr,
    ):  # fmt: skip
        row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
        best, token = float("-inf"), 0x7FFFFFFF
        m, s, u = float("-inf"), 0.0, 0.0
        start = part * piece
        for offset in range(0, piece, BLOCK):
            ids = start + offset + tl.arange(0, BLOCK)
            inside = (ids < start + piece) & (ids < vocabulary)
            z = tl.load(z_ptr + row * stride + ids, mask=inside, other=float("-inf")).to(tl.float32)
            chosen = tl.where((ids < limit) & (ids != mask_id), z, float("-inf"))
            top, at = tl.max(chosen, axis=0, return_indices=True, return_indices_tie_break_left=True)
            token = tl.where(top > best, (start + offset + at).to(tl.int32), token)  # strict: ties stay low
            best = tl.maximum(best, top)
            m_new = tl.maximum(m, tl.max(z, axis=0))
            base = tl.where(m_new == float("-inf"), 0.0, m_new)
            fade = tl.where(m == float("-inf"), 0.0, tl.exp(m - base))
            shift = tl.where(m == float("-inf"), 0.0, m - base)
            e = tl.exp(z - base)
            u = fade * (u + shift * s) + tl.sum(tl.where(z == float("-inf"), 0.0, e * (z - base)), axis=0)
            s = fade * s + tl.sum(e, axis=0)
            m = m_new
        at_row = row * PIECES + part
        tl.store(best_ptr + at_row, best)
        tl.store(token_ptr + at_row, token)
        tl.store(m_ptr + at_row, m)
        tl.store(s_ptr + at_row, s)
        tl.store(u_ptr + at_row, u)

    @triton.jit
    def _join(
        z_ptr, stride, given_ptr, best_ptr, token_ptr, m_ptr, s_ptr, u_ptr,
        out_token_ptr, out_confidence_ptr, out_entropy_ptr, GIVEN: tl.constexpr, PIECES: tl.constexpr,
    ):  # fmt: skip
        row = tl.program_id(0).to(tl.int64)
        at = row * PIECES + tl.arange(0, PIECES)
        best, token = tl.load(best_ptr + at), tl.load(token_ptr + at)
        m, s, u = tl.load(m_ptr + at), tl.load(s_ptr + at), tl.load(u_ptr + at)
        top = tl.max(best, axis=0)
        y = tl.min(tl.where(best == top, token, 0x7FFFFFFF), axis=0)
        whole = tl.max(m, axis=0)
        shift = tl.where(m == float("-inf"), 0.0, m - whole)
        fade = tl.where(m == float("-inf"), 0.0, tl.exp(shift))
        total_u = tl.sum(fade * (u + shift * s), axis=0)
        total_s = tl.sum(fade * s, axis=0)
        if GIVEN:  # probability of a token that is already known (layer readout)
            score = tl.load(z_ptr + row * stride + tl.load(given_ptr + row)).to(tl.float32)
        else:
            score = top
        tl.store(out_token_ptr + row, y.to(tl.int64))
        tl.store(out_confidence_ptr + row, tl.exp(score - whole) / total_s)
        tl.store(
            out_entropy_ptr + row,
            tl.maximum(tl.log(total_s) - total_u / total_s, 0.0, propagate_nan=tl.PropagateNan.ALL),
        )


def reduce_rows(
    logits: Tensor, mask_id: int, limit: int, given: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """logits (N, V) -> token (N,) int64, confidence (N,) of it (or of `given`), entropy (N,), float32."""
    rows = len(logits)
    if logits.stride(1) != 1:
        logits = logits.contiguous()
    device = logits.device
    partial = torch.empty((4, rows, PIECES), dtype=torch.float32, device=device)
    tokens = torch.empty((rows, PIECES), dtype=torch.int32, device=device)
    token = torch.empty(rows, dtype=torch.int64, device=device)
    out = torch.empty((2, rows), dtype=torch.float32, device=device)
    if rows:
        with torch.cuda.device_of(logits):  # Triton launches on the current device: it need not be theirs
            launch(logits, mask_id, limit, given, partial, tokens, token, out)
    return token, out[0], out[1]


def launch(
    logits: Tensor, mask_id: int, limit: int, given: Tensor | None,
    partial: Tensor, tokens: Tensor, token: Tensor, out: Tensor,
) -> None:  # fmt: skip
    """Both kernels, on the stream of the current device."""
    rows, vocabulary = logits.shape
    block = min(BLOCK, triton.next_power_of_2(vocabulary))
    piece = triton.cdiv(triton.cdiv(vocabulary, PIECES), block) * block
    best, m, s, u = partial
    _reduce[(rows, PIECES)](
        logits, logits.stride(0), vocabulary, mask_id, limit, best, tokens, m, s, u,
        piece=piece, BLOCK=block, PIECES=PIECES, num_warps=8,
    )  # fmt: skip
    _join[(rows,)](
        logits, logits.stride(0), token if given is None else given, best, tokens, m, s, u,
        token, out[0], out[1], GIVEN=given is not None, PIECES=PIECES, num_warps=1,
    )  # fmt: skip


def statistics(logits: Tensor, mask_id: int, limit: int) -> tuple[Tensor, Tensor, Tensor]:
    """y, c, H per row; the mask and ids from `limit` on are never chosen."""
    return reduce_rows(logits, mask_id, limit)


def trajectory(logits: Tensor, token: Tensor) -> tuple[Tensor, Tensor]:
    """Per row: argmax over the whole vocabulary, and the probability of `token`."""
    argmax, probability, _ = reduce_rows(logits, -1, logits.shape[1], token)
    return argmax, probability
