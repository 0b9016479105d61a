"""A backbone replayed from recordings: one launch per forward instead of hundreds (CUDA graphs).

A recording has fixed shapes and fixed addresses. A batch is therefore copied into the static buffers of the
smallest bucket that holds it, padded on the right; padding is an ignored key, as in any ragged batch. Blocks
are compiled (torch.compile) before they are recorded, where this machine can. What cannot be recorded runs
eagerly, and `reasons` says why.

What a replay returns lives until the next replay of any forward, because recordings share memory: `stamp` counts
replays, and Forward runs again when its states are gone. Heads share memory of their own, so that reading states
leaves them as they are. Whatever a recording reads must stay alive as long as the recording: it knows addresses only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unmask.models.backbone import Backbone, Block
from unmask.statistics import Choosable, statistics, trajectory

# (what to record) -> (its outputs, replay): after replay() the outputs hold the results for the buffers' contents.
Capture = Callable[[Callable[[], Any]], tuple[Any, Callable[[], None]]]

WARM_UP = 3  # runs before a recording: compilation, autotuning and workspaces must not be recorded
LENGTH_STEP, LONGEST = 32, 4096
BATCHES = (1, 2, 4, 8, 16, 32, 64)
ROWS = (8, 32, 64, 128, 192, 256, 512, 1024)  # through the head at once
MOST = 24  # recordings of whole forwards held at once: each keeps its own states
NO_MEMORY = "no device memory is left for another recording"


class Bucket(NamedTuple):
    batch: int
    length: int
    keep_from: int

    @classmethod
    def holding(cls, batch: int, length: int, keep_from: int) -> Bucket | None:
        batches = [size for size in BATCHES if size >= batch]
        if not batches or length > LONGEST:
            return None
        return cls(batches[0], -(-length // LENGTH_STEP) * LENGTH_STEP, keep_from)


class Recording:
    """The forward of one bucket: static ids and key bias in, static states out."""

    def __init__(self, net: Backbone, bucket: Bucket, capture: Capture, block: Callable[..., Tensor]) -> None:
        self.bucket = bucket
        shape = (bucket.batch, bucket.length)
        self.ids = torch.full(shape, net.spec.mask_id, dtype=torch.int64, device=net.device)
        self.bias = torch.zeros((bucket.batch, 1, 1, bucket.length), dtype=net.dtype, device=net.device)
        self.lowest = torch.finfo(net.dtype).min
        self.tables = net.tables(self.ids)  # the same for every replay

        def run() -> list[Any]:
            cos, sin = self.tables
            x = net.embed(self.ids)
            hidden: list[Any] = [x if bucket.keep_from == 0 else None]
            for layer in range(1, net.spec.layers + 1):
                x = block(net.block(layer - 1), x, cos, sin, self.bias)
                hidden.append(x if layer >= bucket.keep_from else None)
            return hidden

        self.hidden, self.replay = capture(run)

    def __call__(self, ids: Tensor, attention_mask: Tensor | None) -> list[Any]:
        batch, length = ids.shape
        self.ids[:batch, :length].copy_(ids, non_blocking=True)
        keep = torch.zeros_like(self.ids, dtype=torch.bool)
        keep[:batch, :length] = True if attention_mask is None else attention_mask
        # A row of padding alone has every key ignored alike: finite, and nobody reads it.
        self.bias.copy_(torch.zeros_like(self.bias).masked_fill_(~keep[:, None, None, :], self.lowest))
        self.replay()
        return self.hidden


class HeadRecording:
    """Final norm, head and the one pass over the logits, for a fixed number of rows."""

    def __init__(self, net: Backbone, rows: int, choosable: Choosable | None, capture: Capture) -> None:
        self.states = torch.zeros((rows, net.spec.width), dtype=net.dtype, device=net.device)
        self.given = torch.zeros(rows, dtype=torch.int64, device=net.device)

        def run() -> Tensor:
            logits = net.readout(self.states)
            read = trajectory(logits, self.given) if choosable is None else statistics(logits, choosable)
            return torch.stack([column.double() for column in read])

        self.table, self.replay = capture(run)

    def __call__(self, states: Tensor, given: Tensor | None = None) -> Tensor:
        self.states[: len(states)].copy_(states)
        if given is not None:
            self.given[: len(given)].copy_(given)
        self.replay()
        return self.table[:, : len(states)]


class GraphBackbone:
    """Answers what Backbone answers. Created by `recorded`, which checks that it can work."""

    def __init__(
        self,
        net: Backbone,
        capture: Capture,
        block: Callable[..., Tensor] = Block.forward,
        capture_head: Capture | None = None,
    ) -> None:
        self.net, self.capture, self.block_forward = net, capture, block
        self.capture_head = capture_head or capture
        self.spec, self.device, self.dtype = net.spec, net.device, net.dtype
        self.readout, self.parameters = net.readout, net.parameters
        self.forwards: dict[Bucket, Recording | None] = {}
        self.heads: dict[tuple[int, Choosable | None], HeadRecording | None] = {}
        self.stamp = 0
        self.reasons: list[str] = []

    def states(self, ids: Tensor, attention_mask: Tensor | None = None, keep_from: int = 0) -> list[Any]:
        """As Backbone.states, but of the bucket's shape: rows and positions past the batch are padding."""
        self.stamp += 1
        recording = self.recording(Bucket.holding(len(ids), ids.shape[1], keep_from))
        return recording(ids, attention_mask) if recording else self.net.states(ids, attention_mask, keep_from)

    def recording(self, bucket: Bucket | None) -> Recording | None:
        if bucket is None:
            self.explain(f"batches over {BATCHES[-1]} rows or {LONGEST} positions are not recorded")
            return None
        if bucket in self.forwards:
            return self.forwards[bucket]
        if len(self.forwards) >= MOST:
            self.explain(f"{MOST} shapes are recorded already")
            return None
        self.forwards[bucket] = self.record(bucket)
        return self.forwards[bucket]

    def record(self, bucket: Bucket) -> Recording | None:
        """A shape that cannot be recorded is not tried again."""
        try:
            return Recording(self.net, bucket, self.capture, self.block_forward)
        except torch.OutOfMemoryError:  # eager needs less: it keeps nothing for other shapes
            self.explain(NO_MEMORY)
            return None
        except Exception as error:
            if self.block_forward is Block.forward:
                self.explain(f"recording failed ({first_line(error)})")
                return None
            # The compiler, most likely: record without it.
            self.explain(f"torch.compile failed ({first_line(error)}); blocks are recorded uncompiled")
            self.block_forward = Block.forward
            return self.record(bucket)

    def explain(self, reason: str) -> None:
        if reason not in self.reasons:
            self.reasons.append(reason)

    def table(self, states: Tensor, choosable: Choosable | None, given: Tensor | None = None) -> Tensor | None:
        """Rows of y, c, H of these states; without `choosable`, of the layer's argmax and p(given). On the device,
        until the next call. None where there are more rows than any recording takes."""
        rows = next((size for size in ROWS if size >= len(states)), None)
        if rows is None:
            return None
        key = (rows, choosable)
        if key not in self.heads:
            try:
                self.heads[key] = HeadRecording(self.net, rows, choosable, self.capture_head)
            except torch.OutOfMemoryError:
                self.heads[key] = None
                self.explain(NO_MEMORY)
            except Exception as error:  # without Triton the statistics ask the host, which cannot be recorded
                self.heads[key] = None
                self.explain(f"the head cannot be recorded ({first_line(error)})")
        head = self.heads[key]
        return head(states, given) if head else None

    def attention_maps(
        self, hidden: Mapping[int, Tensor], attention_mask: Tensor | None, layers: Sequence[int]
    ) -> Tensor:
        return self.net.attention_maps(hidden, attention_mask, layers)


def first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)[:200]


def recorded(net: Any) -> tuple[Any, str | None]:
    """(backbone to decode with, why it is the one that was given)."""
    if not isinstance(net, Backbone):
        return net, "only models loaded by unmask itself can be compiled: decoding without"
    if net.device.type != "cuda":
        return net, "compilation and CUDA graphs need a CUDA device: decoding without"
    stream = torch.cuda.Stream(net.device)
    forwards, heads = (CudaCapture(net.device, stream) for _ in range(2))
    return GraphBackbone(net, forwards, compiled_block(), heads), None


def compiled_block() -> Callable[..., Tensor]:
    """One compilation serves all blocks of a shape: their weights are inputs."""
    import torch._dynamo

    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, 8 * MOST)
    return torch.compile(Block.forward, dynamic=False)


class CudaCapture:
    """Records on a CUDA device. All recordings of one capture share a memory pool: they never run at the same time,
    and a replay may overwrite what a later recording returned.

    One stream for all of them: the library's products keep a workspace per stream, and the default one of
    torch.cuda.graph belongs to the device that was recorded on first."""

    def __init__(self, device: torch.device, stream: torch.cuda.Stream) -> None:
        self.device, self.stream = device, stream
        self.pool: Any = None

    def __call__(self, run: Callable[[], Any]) -> tuple[Any, Callable[[], None]]:
        with torch.inference_mode(), torch.cuda.device(self.device):
            return self.record(run)

    def record(self, run: Callable[[], Any]) -> tuple[Any, Callable[[], None]]:
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for _ in range(WARM_UP):
                run()
        torch.cuda.current_stream().wait_stream(self.stream)
        if self.pool is None:
            self.pool = torch.cuda.graph_pool_handle()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool, stream=self.stream):
            outputs = run()
        return outputs, graph.replay


def eager_capture(run: Callable[[], Any]) -> tuple[Any, Callable[[], None]]:
    """What CudaCapture does, without a device: the same buffers are filled again by running again. For tests."""
    with torch.inference_mode():
        outputs = run()

    def replay() -> None:
        with torch.inference_mode():
            fresh = run()
            if isinstance(outputs, Tensor):
                outputs.copy_(fresh)
                return
            for old, new in zip(outputs, fresh, strict=True):
                if old is not None:
                    old.copy_(new)

    return outputs, replay
