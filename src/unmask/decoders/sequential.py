"""The models' own decoders, and reading order: one token per forward, or a fixed schedule of counts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from unmask.decoders.base import TEMPERED, BlockDecoder, Commit, Decoder, StepView, finite, ranked, tempered, verdicts

MOST_STEPS = 1_000_000  # more is a slip of the keyboard: no canvas has so many positions
STEPS = f"steps must be at least 1 and at most {MOST_STEPS}"


def even_schedule(masks: int, steps: int) -> list[int]:
    """How many positions each step commits: floor(n/s), one more in the first n mod s steps."""
    base, extra = divmod(masks, steps)
    return [base + (i < extra) for i in range(steps)]


def commit_top(view: StepView, score: np.ndarray, count: int, token: np.ndarray | None = None) -> Commit:
    """The `count` highest scores, ties to the left."""
    take = np.zeros(len(view), dtype=bool)
    take[ranked(score)[:count]] = True
    verdict = verdicts(len(view), "rank")
    verdict[take] = "schedule"
    return Commit(take, verdict, token, {"score": score})


@dataclass(frozen=True)
class LeftToRight(Decoder):
    """One token per forward in reading order: what order alone is worth."""

    name: ClassVar[str] = "left-to-right"
    summary: ClassVar[str] = "one token per forward, in reading order"

    def select(self, view: StepView) -> Commit:
        take = np.zeros(len(view), dtype=bool)
        take[0] = True
        verdict = verdicts(len(view), "turn")
        verdict[0] = "order"
        return Commit(take, verdict)


@dataclass(frozen=True)
class LladaDefault(BlockDecoder):
    """LLaDA's sampler: blocks, an even schedule of counts, the most confident first."""

    name: ClassVar[str] = "llada-default"
    summary: ClassVar[str] = "LLaDA's own: blocks, most confident first, on a fixed schedule"

    steps: int | None = None  # in all; None: one per canvas position
    temperature: float = 0.0
    cfg_scale: float = 0.0
    remasking: str = "low_confidence"  # or "random"
    logits_eos_inf: bool = False  # end-of-text is never chosen
    confidence_eos_eot_inf: bool = False  # positions that predict an end token go last

    def check(self) -> None:
        super().check()
        self.require(self.steps is None or 1 <= self.steps <= MOST_STEPS, STEPS)
        self.require(tempered(self.temperature), f"temperature {TEMPERED}")
        self.require(0 <= self.cfg_scale <= 1000, "cfg_scale must be between 0 and 1000")  # more would overflow
        self.require_choice("remasking", ("low_confidence", "random"))

    def resolve(self, spec, length: int) -> Decoder:
        super().resolve(spec, length)
        steps = length if self.steps is None else self.steps
        blocks = length // (self.block_length or length)
        self.require(steps % blocks == 0, f"steps {steps} does not divide into {blocks} blocks")
        return replace(self, steps=steps)

    @property
    def wants_logits(self) -> bool:
        return self.temperature > 0 or self.logits_eos_inf or self.confidence_eos_eot_inf

    @property
    def guidance(self) -> float:
        return self.cfg_scale

    def select(self, view: StepView) -> Commit:
        block = int(view.positions[0]) // (self.block_length or view.length)
        if view.memory.get("block") != block:
            blocks = view.length // (self.block_length or view.length)
            steps = min((self.steps or view.length) // blocks, len(view))  # further ones would commit nothing
            view.memory.update(block=block, counts=even_schedule(len(view), steps))
        token, confidence = self.propose(view)
        if self.remasking == "random":
            confidence = self.noise(view)
        return commit_top(view, confidence, view.memory["counts"].pop(0), token)

    def propose(self, view: StepView) -> tuple[np.ndarray, np.ndarray]:
        """Tokens, perhaps with Gumbel noise; confidences from the distribution without it."""
        if not self.wants_logits:
            return view.token, view.confidence
        import torch

        from unmask.decoders.sampling import gumbel_argmax

        assert view.logits is not None
        clean = view.logits.to(torch.float64, copy=True)  # written to below
        if self.logits_eos_inf:
            clean[:, view.eos_id] = -np.inf
        token = gumbel_argmax(view.choosable.forbid(clean), self.temperature, view.rng)
        if self.confidence_eos_eot_inf:  # a position that predicts an end token gets confidence 0: it goes last
            clean[:, sorted(view.stop_ids)] = -np.inf
        confidence = clean.softmax(-1).gather(-1, token[:, None]).squeeze(-1)
        return token.cpu().numpy(), confidence.cpu().numpy()

    def noise(self, view: StepView) -> np.ndarray:
        import torch

        device = view.rng.device if view.rng else "cpu"
        return torch.rand(len(view), generator=view.rng, device=device, dtype=torch.float64).cpu().numpy()


@dataclass(frozen=True)
class DreamDefault(Decoder):
    """Dream's `diffusion_generate`: full canvas, an eps schedule, confidence read from the *transformed*
    distribution (without temperature and top-p the end-of-text tail has the lowest entropy and goes first)."""

    name: ClassVar[str] = "dream-default"
    summary: ClassVar[str] = "Dream's own: full canvas, lowest transformed entropy first"

    steps: int | None = None  # None: one per canvas position
    eps: float = 1e-3
    temperature: float = 0.1
    top_p: float | None = 0.9
    top_k: int | None = None
    alg: str = "entropy"  # or "maskgit_plus", "topk_margin", "origin"
    alg_temp: float = 0.0

    def check(self) -> None:
        self.require(self.steps is None or 1 <= self.steps <= MOST_STEPS, STEPS)
        self.require(finite(self.eps) and 0 < self.eps < 1, "eps must lie between 0 and 1")
        self.require(tempered(self.temperature), f"temperature {TEMPERED}")
        self.require(self.top_p is None or 0 < self.top_p <= 1, "top_p must lie in (0, 1]")
        self.require(self.top_k is None or self.top_k >= 1, "top_k must be at least 1")
        self.require(tempered(self.alg_temp), f"alg_temp {TEMPERED}")
        self.require_choice("alg", ("entropy", "maskgit_plus", "topk_margin", "origin"))

    def resolve(self, spec, length: int) -> Decoder:
        return replace(self, steps=length if self.steps is None else self.steps)

    @property
    def wants_logits(self) -> bool:
        return True

    def patience(self, length: int) -> int:
        assert self.steps is not None
        return max(length, self.steps) + 8  # many more steps than masks: the first ones are all empty

    def times(self, step: int) -> tuple[float, float]:
        """t_step and t_step+1 of linspace(1, eps, steps + 1), which may be too long to be made."""
        assert self.steps is not None
        slope = (self.eps - 1.0) / self.steps
        return 1.0 + step * slope, self.eps if step + 1 == self.steps else 1.0 + (step + 1) * slope

    def select(self, view: StepView) -> Commit:
        from unmask.decoders.sampling import transform

        assert self.steps is not None
        last = view.step >= self.steps - 1
        token, confidence = transform(
            view.choosable.forbid(view.logits), self.temperature, self.top_p, self.top_k, self.alg, view.rng
        )
        t, s = self.times(min(view.step, self.steps - 1))
        if self.alg == "origin":
            return self.by_chance(view, token, 1.0 if last else 1.0 - s / t)
        count = len(view) if last else int(len(view) * (1.0 - s / t))
        if self.alg_temp > 0 and count:
            return self.drawn(view, token, confidence, count)
        return commit_top(view, confidence, count, token)

    def by_chance(self, view: StepView, token: np.ndarray, probability: float) -> Commit:
        import torch

        assert view.rng is not None
        u = torch.rand(len(view), generator=view.rng, device=view.rng.device, dtype=torch.float64)
        take = u.cpu().numpy() < probability
        verdict = verdicts(len(view), "rank")
        verdict[take] = "chance"
        return Commit(take, verdict, token)

    def drawn(self, view: StepView, token: np.ndarray, confidence: np.ndarray, count: int) -> Commit:
        """`count` positions without replacement from softmax(confidence / alg_temp)."""
        import torch

        assert view.rng is not None
        weights = torch.softmax(torch.from_numpy(confidence).to(view.rng.device) / self.alg_temp, dim=-1)
        chosen = torch.multinomial(weights, count, generator=view.rng).cpu().numpy()
        take = np.zeros(len(view), dtype=bool)
        take[chosen] = True
        verdict = verdicts(len(view), "rank")
        verdict[take] = "schedule"
        return Commit(take, verdict, token, {"score": confidence})
