"""What lies beyond the committed prefix, for streams that ask: tokens committed out of order, and guesses."""

from __future__ import annotations

from typing import Any

from unmask.models.tokenizer import Tokenizer
from unmask.serve.scheduler import Task
from unmask.trace import Step

Token = dict[str, Any]


class Beyond:
    """Follows one row. `committed` tokens are final where they are; the others are the model's present guess and
    may change or vanish."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer, self.steps = tokenizer, 0
        self.committed: dict[int, Token] = {}

    def news(self, task: Task) -> list[Token] | None:
        """Positions past the prefix, up to the first committed end token; None where no step has been made."""
        steps, start = task.steps, len(task.prefix)
        if steps == self.steps:
            return None
        guesses: dict[int, Token] = {}
        for number in range(self.steps, steps):
            guesses = {}
            for i, token in self.tokens(task.row.trace.steps[number]):
                (self.committed if token["committed"] else guesses)[i] = token
        self.steps = steps
        ends = [position for position, token in self.committed.items() if token["end"]]
        seen = {**guesses, **self.committed}
        return [seen[i] for i in sorted(seen) if i >= start and (not ends or i <= min(ends))]

    def tokens(self, step: Step) -> list[tuple[int, Token]]:
        columns = zip(
            step.positions.tolist(),
            step.token.tolist(),
            step.committed.tolist(),
            step.confidence.tolist(),
            strict=True,
        )
        return [
            (
                position,
                {
                    "position": position, "token": self.tokenizer.piece(token), "committed": committed,
                    "confidence": round(confidence, 4), "end": token in self.tokenizer.stop_ids,
                },
            )
            for position, token, committed, confidence in columns
        ]  # fmt: skip
