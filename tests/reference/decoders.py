"""Every decoding rule, for one state, in plain loops that follow the text.

A state is a row of positions, left to right, with numbers per position: confidence `c`, entropy `H` in nats.
`masked` marks the positions a rule may commit (default: all). A block rule is given the block's positions, or
the whole row with `masked` true only inside the block. Selections come back as sorted lists of positions.

Ties: the lowest position, and the lowest vocabulary id.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .statistics import argmax, log_softmax, softmax

Array = NDArray[Any]
Floats = Sequence[float]
Mask = Sequence[bool] | None


# --- shared conventions -------------------------------------------------------------------------------------


def positions(length: int, masked: Mask = None) -> list[int]:
    """The masked positions M, left to right."""
    return [i for i in range(length) if masked is None or masked[i]]


def most(scores: Floats, among: Sequence[int]) -> int:
    """The position with the largest score, the lowest of equals."""
    winner = among[0]
    for i in among:
        if scores[i] > scores[winner]:
            winner = i
    return winner


def ranked(scores: Floats, among: Sequence[int]) -> list[int]:
    """Positions by descending score, equals from left to right."""
    return sorted(sorted(among), key=lambda i: -scores[i])  # sorting is stable


def blocks(length: int, block_length: int) -> list[range]:
    if length % block_length:
        raise ValueError("the block length must divide the canvas length")
    return [range(start, start + block_length) for start in range(0, length, block_length)]


# --- LLaDA default ------------------------------------------------------------------------------------------


def llada_steps_per_block(steps: int, length: int, block_length: int) -> int:
    count = len(blocks(length, block_length))
    if steps % count:
        raise ValueError("the number of blocks must divide the number of steps")
    return steps // count


def llada_schedule(n: int, s: int) -> list[int]:
    """How many of n masks each of s steps commits: floor(n / s), and one more in the first n mod s steps."""
    return [n // s + (1 if step < n % s else 0) for step in range(s)]


def llada_noisy(z: ArrayLike, u: ArrayLike, temperature: float) -> Array:
    """exp(z) / (-ln u)^T in float64, with u uniform on (0, 1); the logits themselves at T = 0."""
    z = np.asarray(z, np.float64)
    if temperature == 0:
        return z
    return np.exp(z) / (-np.log(np.asarray(u, np.float64))) ** temperature


def llada_guidance(conditional: ArrayLike, unconditional: ArrayLike, w: float) -> Array:
    """z_u + (w + 1)(z_c - z_u), where z_u comes from the canvas with its prompt masked out."""
    z_c, z_u = np.asarray(conditional, np.float64), np.asarray(unconditional, np.float64)
    return z_u + (w + 1) * (z_c - z_u)


def llada_propose(
    z: ArrayLike,
    u: ArrayLike | None = None,
    temperature: float = 0.0,
    forbidden: Sequence[int] = (),
    eos: int | None = None,
    eot: int | None = None,
    logits_eos_inf: bool = False,
    confidence_eos_eot_inf: bool = False,
) -> tuple[int, float]:
    """The token of one position and its confidence, which comes from the un-noised logits.

    `confidence_eos_eot_inf` removes EOS and EOT from the confidence at T = 0, but only EOT at T > 0: the
    source writes EOS to the noised logits, which are the clean ones only at T = 0.
    """
    clean = np.array(z, np.float64)
    if logits_eos_inf:
        clean[eos] = -np.inf
    y = argmax(clean if temperature == 0 else llada_noisy(clean, u, temperature), forbidden)  # type: ignore[arg-type]
    if confidence_eos_eot_inf:
        clean[eot] = -np.inf
        if temperature == 0:
            clean[eos] = -np.inf
    return y, float(softmax(clean)[y])


def llada_select(confidence: Floats, k: int, masked: Mask = None) -> list[int]:
    """The k most confident. Random remasking is the same with uniform noise for confidence."""
    return sorted(ranked(confidence, positions(len(confidence), masked))[:k])


# --- Dream default ------------------------------------------------------------------------------------------

DreamAlg = Literal["origin", "maskgit_plus", "topk_margin", "entropy"]


def dream_reveal(i: int, steps: int, eps: float = 1e-3) -> float:
    """The share of the masks that step i reveals: 1 - t_{i+1} / t_i on linspace(1, eps), all at last."""
    if i == steps - 1:
        return 1.0
    t = np.linspace(1, eps, steps + 1)
    return float(1 - t[i + 1] / t[i])


def dream_schedule(n: int, steps: int, eps: float = 1e-3) -> list[int]:
    """Commits per step from n masks, for every `alg` but `origin`."""
    counts = []
    for i in range(steps):
        counts.append(math.floor(n * dream_reveal(i, steps, eps)))
        n -= counts[-1]
    return counts


def dream_transform(
    logits: ArrayLike, temperature: float = 0.0, top_p: float | None = None, top_k: int | None = None
) -> Array:
    """Temperature, then top-p, then top-k, then softmax: the distribution q tokens are drawn from."""
    z = np.array(logits, np.float64)
    dropped = np.finfo(np.float64).min
    if temperature > 0:
        z = z / temperature
    if top_p is not None and top_p < 1:
        p, before = softmax(z), 0.0
        for v in ranked(z, range(len(z))):  # type: ignore[arg-type]
            if before > top_p:
                z[v] = dropped
            before += p[v]
    if top_k is not None:
        kth = sorted(z, reverse=True)[min(top_k, len(z)) - 1]
        z[z < kth] = dropped
    return softmax(z)


def dream_confidence(alg: DreamAlg, q: ArrayLike, token: int) -> float | None:
    """The score of a sampled token under the transformed distribution; `origin` has none."""
    q = np.asarray(q, np.float64)
    if alg == "maskgit_plus":
        return float(q[token])
    if alg == "topk_margin":
        first, second = sorted(q, reverse=True)[:2]
        return float(first - second)
    if alg == "entropy":
        return float((q * np.log(q + 1e-10)).sum())
    return None


def dream_select(confidence: Floats, k: int, masked: Mask = None) -> list[int]:
    """alg_temp 0 or none: the k most confident."""
    return sorted(ranked(confidence, positions(len(confidence), masked))[:k])


def dream_draw_probabilities(confidence: Floats, alg_temp: float, masked: Mask = None) -> dict[int, float]:
    """alg_temp > 0: the distribution over masks from which k positions are drawn without replacement."""
    among = positions(len(confidence), masked)
    return dict(zip(among, softmax([confidence[i] / alg_temp for i in among]).tolist(), strict=True))


def dream_origin(u: Floats, i: int, steps: int, eps: float = 1e-3, masked: Mask = None) -> list[int]:
    """`origin`: each mask is committed independently with the step's probability, given its uniform u."""
    return [j for j in positions(len(u), masked) if u[j] < dream_reveal(i, steps, eps)]


# --- Fast-dLLM ----------------------------------------------------------------------------------------------


def fast_threshold(c: Floats, tau: float = 0.9, masked: Mask = None) -> list[int]:
    """Every c >= tau, or else the single most confident."""
    among = positions(len(c), masked)
    return [i for i in among if c[i] >= tau] or [most(c, among)]


def fast_factor(c: Floats, f: float = 1.0, quirk: bool = False, masked: Mask = None) -> list[int]:
    """The longest prefix of the descending order in which rank n >= 2 has c >= 1 - f / (n + 1).

    With the source's quirk, all positions are committed when exactly one is left out.
    """
    order = ranked(c, positions(len(c), masked))
    passed = 1
    while passed < len(order) and c[order[passed]] >= 1 - f / (passed + 1 + 1):
        passed += 1
    if quirk and passed == len(order) - 1:
        passed = len(order)
    return sorted(order[:passed])


# --- EB-Sampler ---------------------------------------------------------------------------------------------


def eb_costs(H: Floats, order: Sequence[int]) -> list[float]:
    """d_k: the sum of the first k entropies of the order, less their maximum."""
    prefixes = [[H[i] for i in order[:k]] for k in range(1, len(order) + 1)]
    return [sum(prefix) - max(prefix) for prefix in prefixes]


def eb(
    c: Floats,
    H: Floats,
    gamma: float = 0.1,
    masked: Mask = None,
    proxy: Literal["confidence", "entropy", "margin"] = "confidence",
    margin: Floats | None = None,
) -> list[int]:
    """The first max(1, #{k : d_k <= gamma}) of the order by error proxy."""
    scores = {"confidence": c, "entropy": [-h for h in H], "margin": margin}[proxy]
    assert scores is not None, "the margin proxy needs margins"
    order = ranked(scores, positions(len(c), masked))
    affordable = sum(d <= gamma for d in eb_costs(H, order))
    return sorted(order[: max(1, affordable)])


# --- LoPA ---------------------------------------------------------------------------------------------------


def lopa_anchor(c: Floats, threshold: float = 0.9, masked: Mask = None) -> list[int]:
    """Every c > threshold (strict), or else the single most confident."""
    among = positions(len(c), masked)
    return [i for i in among if c[i] > threshold] or [most(c, among)]


def lopa_positions(H: Floats, remaining: Sequence[int], k: int = 3) -> list[int]:
    """Where the lookahead branches commit one more token: the lowest entropies among the anchor's masks."""
    return ranked([-h for h in H], remaining)[:k]


def lopa_score(H: Floats, remaining: Sequence[int]) -> float:
    """Mean of -H over the masks a branch leaves in the block; a completed block beats everything."""
    if not remaining:
        return math.inf
    return sum(-H[i] for i in remaining) / len(remaining)


def lopa_winner(scores: Floats) -> int:
    """Candidates are lookahead 1..k, then the anchor; the earliest of equals wins."""
    return most(scores, range(len(scores)))


# --- DAPD ---------------------------------------------------------------------------------------------------

CERTAIN = 1 - 2**-9  # what rounds to 1.0 in bfloat16


def dapd_layers(layers: int) -> list[int]:
    """The blocks (1..L) whose attention is averaged: the top L - floor(0.7 L)."""
    return list(range(7 * layers // 10 + 1, layers + 1))


def dapd_threshold(low: float, high: float, remaining: int, length: int) -> float:
    """`remaining` counts the masks of the whole canvas."""
    return low + (high - low) * (1 - remaining / length)


def dapd_graph(attention: ArrayLike, masked: Mask = None) -> tuple[Array, Array, Array]:
    """(D, N, degree) from attention averaged over heads and layers [T, T]; zero outside the masks."""
    a = np.asarray(attention, np.float64)
    among = positions(len(a), masked)
    d, n = np.zeros_like(a), np.zeros_like(a)
    for i in among:
        for j in among:
            if i != j:
                d[i, j] = (a[i, j] + a[j, i]) / 2
    for i in among:
        n[i] = d[i] / max(d[i].max(), 1e-8)
    return d, n, d.sum(axis=1)


def dapd_independent(
    n: Array, degree: Array, c: Floats, tau: float, among: Sequence[int]
) -> tuple[list[int], list[int]]:
    """(accepted, order): by descending degree * confidence, i joins if N_ij <= tau for every j accepted."""
    order = ranked([degree[i] * c[i] for i in range(len(c))], among)
    accepted: list[int] = []
    for i in order:
        if all(n[i, j] <= tau for j in accepted):
            accepted.append(i)
    return sorted(accepted), order


def dapd_direct(
    attention: ArrayLike, c: Floats, tau: float, masked: Mask = None, certain: float = CERTAIN
) -> list[int]:
    """All certain positions, and an independent set of the others; neither blocks the other."""
    among = positions(len(c), masked)
    _, n, degree = dapd_graph(attention, masked)
    direct = [i for i in among if c[i] >= certain]
    accepted, _ = dapd_independent(n, degree, c, tau, [i for i in among if i not in direct])
    return sorted(direct + accepted) or [most(c, among)]


def dapd_staged(
    attention: ArrayLike,
    c: Floats,
    tau: float,
    remaining: int,
    length: int,
    masked: Mask = None,
    confident: float = 0.9,
) -> list[int]:
    """An independent set of all masks; once half the canvas is filled, also every c >= 0.9."""
    among = positions(len(c), masked)
    _, n, degree = dapd_graph(attention, masked)
    accepted, _ = dapd_independent(n, degree, c, tau, among)
    if 2 * remaining <= length:
        accepted += [i for i in among if c[i] >= confident and i not in accepted]
    return sorted(accepted)


# --- RPD ----------------------------------------------------------------------------------------------------


def stability(
    y: int, layer_argmax: Sequence[int], layer_probability: Floats, k_max: int, w: float
) -> tuple[int, float, float]:
    """(K, r, S) of one position from its readout at layers l0..L, the oldest first.

    `layer_argmax` is each layer's argmax over the whole vocabulary, `layer_probability` its probability of y,
    the last of which is the confidence. K = 0 (and S = 0) only if y is not the last argmax, which happens
    when that is a forbidden id.
    """
    K = 0
    for token in reversed(layer_argmax):
        if token != y:
            break
        K += 1
    if K == 0:
        return 0, 0.0, 0.0
    r = max(layer_probability[-K:]) - layer_probability[-1]
    return K, r, min(K, k_max) - w * r


def stability_from_logits(layer_logits: ArrayLike, y: int, k_max: int, w: float) -> tuple[int, float, float]:
    """The same from the layers' logits [l0..L, V]."""
    rows = np.asarray(layer_logits)
    tokens = [argmax(row) for row in rows]
    return stability(y, tokens, [float(np.exp(log_softmax(row)[y])) for row in rows], k_max, w)


def candidates(c: Floats, stable: Sequence[bool], theta_c: float, theta_h: float, masked: Mask = None) -> list[int]:
    """C: confident enough outright, or in the band and stable (S >= theta_s)."""
    chosen = []
    for i in positions(len(c), masked):
        if c[i] >= theta_h or (theta_c <= c[i] < theta_h and stable[i]):
            chosen.append(i)
    return chosen


def upstream_entropy(H: Floats, chosen: Sequence[int], masked: Mask = None) -> dict[int, float]:
    """E per masked position: the entropy of the non-candidate masks before it, summed left to right."""
    E, total = {}, 0.0
    for i in positions(len(H), masked):
        E[i] = total
        if i not in chosen:
            total += H[i]
    return E


Fallback = Literal["window", "affordable"]


def rpd_fallback(
    c: Floats,
    H: Floats,
    chosen: Sequence[int],
    beta: float,
    window: int,
    fallback: Fallback,
    masked: Mask = None,
) -> int:
    """The one position committed when no candidate is affordable: the most confident of the first `window`
    masks, or of all masks whose upstream entropy is within the budget."""
    among = positions(len(c), masked)
    if fallback == "window":
        return most(c, among[:window])
    E = upstream_entropy(H, chosen, masked)
    return most(c, [i for i in among if E[i] <= beta])


def rpd_scan(
    c: Floats,
    H: Floats,
    stable: Sequence[bool],
    theta_c: float = 0.6,
    theta_h: float = 0.9,
    beta: float = 4.0,
    window: int = 32,
    fallback: Fallback = "window",
    masked: Mask = None,
) -> list[int]:
    """One RPD step by the left-to-right scan: accept candidates while the running entropy is within the
    budget; everything not accepted adds its entropy."""
    C = candidates(c, stable, theta_c, theta_h, masked)
    run, A = 0.0, []
    for j in positions(len(c), masked):
        if j in C and run <= beta:
            A.append(j)
        else:
            run += H[j]
    return A or [rpd_fallback(c, H, C, beta, window, fallback, masked)]


def rpd_closed_form(
    c: Floats,
    H: Floats,
    stable: Sequence[bool],
    theta_c: float = 0.6,
    theta_h: float = 0.9,
    beta: float = 4.0,
    window: int = 32,
    fallback: Fallback = "window",
    masked: Mask = None,
) -> list[int]:
    """The same set without a scan: the candidates whose upstream entropy is within the budget."""
    C = candidates(c, stable, theta_c, theta_h, masked)
    E = upstream_entropy(H, C, masked)
    A = [i for i in C if E[i] <= beta]
    return A or [rpd_fallback(c, H, C, beta, window, fallback, masked)]


def rpd_block(
    c: Floats, stable: Sequence[bool], theta_c: float = 0.6, theta_h: float = 0.9, masked: Mask = None
) -> list[int]:
    """All candidates of the block, or else its most confident position: no budget, no window."""
    return candidates(c, stable, theta_c, theta_h, masked) or [most(c, positions(len(c), masked))]
