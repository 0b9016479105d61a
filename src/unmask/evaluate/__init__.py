"""Evaluation: work items -> executor (local, ray) -> sink. `unmask eval` in one function.

run(Settings("tiny", "wordproblems", decoders=(...,)), Path("runs/first"))
"""

from __future__ import annotations

from unmask.evaluate.runner import Stopped, run
from unmask.evaluate.settings import Settings
from unmask.evaluate.specs import DecoderSpec
from unmask.evaluate.summary import summarise

__all__ = ["DecoderSpec", "Settings", "Stopped", "run", "summarise"]
