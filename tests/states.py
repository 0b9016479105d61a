"""States that hypothesis makes for one selection rule, and the noise a seed stands for."""

from __future__ import annotations

from typing import Any

import torch
from hypothesis import strategies as st

from helpers import view
from unmask.decoders.base import StepView

# Sixteenths: ties and equalities with thresholds are common, and sums are exact.
shares = st.integers(0, 16).map(lambda n: n / 16)
entropies = st.integers(0, 48).map(lambda n: n / 16)


@st.composite
def states(draw: st.DrawFn, most: int = 12) -> dict[str, list[Any]]:
    n = draw(st.integers(1, most))
    row = {"c": shares, "H": entropies, "stable": st.booleans()}
    return {name: draw(st.lists(values, min_size=n, max_size=n)) for name, values in row.items()}


def seen(state: dict[str, list[Any]], **fields: Any) -> StepView:
    return view(state["c"], state["H"], **fields)


def draw(seed: int, *shape: int) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
