"""Everything a result depends on, as the user asked for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from unmask.errors import UserError
from unmask.evaluate.specs import DecoderSpec
from unmask.evaluate.worker import Decoding


@dataclass(frozen=True)
class Settings:
    """Two runs with equal settings may share a folder; others may not."""

    model: str
    task: str
    decoders: Sequence[DecoderSpec]
    split: str = "test"
    limit: int | None = None
    batch_size: int = 8
    canvas_length: int | None = None
    seed: int = 0
    raw: bool = False
    early_stop: bool = False
    device: str | None = None
    dtype: str | None = None
    revision: str | None = None
    data: Path | None = None  # where the task's examples are, for tasks that read them

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise UserError(f"the batch size must be at least 1, not {self.batch_size}")
        if self.limit is not None and self.limit < 1:
            raise UserError(f"the limit must be at least 1, not {self.limit}")
        if self.canvas_length is not None and self.canvas_length < 1:
            raise UserError(f"the canvas length must be at least 1, not {self.canvas_length}")
        if not self.decoders:
            raise UserError("no decoder was named: use --decoders default,rpd")

    @property
    def decoding(self) -> Decoding:
        return Decoding(self.batch_size, self.canvas_length, self.seed, self.raw, self.early_stop)

    def request(self) -> dict[str, Any]:
        """As config.json holds it. The data's place is left out: its checksum is what counts."""
        held = {
            name: value for name, value in asdict(self).items() if name not in ("decoders", "data", "device", "dtype")
        }
        return {**held, "model": str(self.model)}
