"""One line per decoder option, for the page. A test holds this list against the decoders."""

from __future__ import annotations

from unmask.decoders.dependency import THRESHOLDS
from unmask.decoders.entropy_bound import PROXIES
from unmask.decoders.reliable import FALLBACKS

DOCS = {
    # RPD and RPD-block
    "theta_h": "Confidence at or above which a position is a candidate without a stability test.",
    "theta_c": "Confidence below which a position is never a candidate.",
    "theta_s": "Stability S a moderately confident position needs.",
    "k_max": "Layers of persistence that count, at most.",
    "w": "Weight of the confidence drop r in S = min(K, k_max) − w·r.",
    "first_layer": "First layer of the window the stability test reads.",
    "settings": "Where unset values come from: this model's own settings, or the paper's table.",
    "lazy": "Read only the layers that can change the outcome.",
    "beta": "Entropy (nats) allowed upstream of a committed position.",
    "fallback": "What to commit when nothing qualifies: affordable stays within β, window is the paper's.",
    "window": "How many masks from the left the paper's fallback looks at.",
    # Blocks and schedules
    "block_length": "Positions per block; empty means the whole canvas is one block.",
    "steps": "Denoising steps in all; empty means one per position.",
    "temperature": "Randomness of the tokens; 0 takes the most likely one.",
    "cfg_scale": "Classifier-free guidance; above 0 doubles the work.",
    "remasking": "Which positions go first: the most confident, or random ones.",
    "logits_eos_inf": "Never choose the end-of-text token.",
    "confidence_eos_eot_inf": "Positions that predict an end token go last.",
    "eps": "Where Dream's time schedule ends.",
    "top_p": "Keep the smallest set of tokens with this much probability.",
    "top_k": "Keep this many tokens.",
    "alg": "How Dream scores positions.",
    "alg_temp": "Randomness of which positions are committed.",
    # Fast-dLLM, EB-Sampler, LoPA, DAPD
    "threshold": "Confidence at which a position is committed.",
    "factor": "Fast-dLLM's dynamic threshold instead of a fixed one.",
    "quirk": "The factor rule as published: one more position when all but one pass.",
    "gamma": "Entropy budget (nats) of one step.",
    "proxy": "Which error estimate orders the positions.",
    "branches": "Lookahead canvases per forward.",
    "variant": "direct commits certain positions outright; staged adds confident ones in the second half.",
    "task": "Picks the published thresholds of a task.",
    "tau_min": "Coupling allowed between committed positions, at the start.",
    "tau_max": "Coupling allowed at the end.",
    "direct": "Confidence at which dependencies do not matter.",
    "skip": "Share of the layers, from the bottom, left out of the attention maps.",
    "staged_confidence": "Confidence that suffices once half the canvas is filled (staged).",
}

CHOICES = {
    "settings": ("model", "paper"),
    "fallback": FALLBACKS,
    "remasking": ("low_confidence", "random"),
    "alg": ("entropy", "maskgit_plus", "topk_margin", "origin"),
    "proxy": PROXIES,
    "variant": ("direct", "staged"),
    "task": tuple(THRESHOLDS["llada"]),
}
