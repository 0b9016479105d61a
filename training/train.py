"""Train the embedded model: a masked diffusion language model of seven million parameters.

    python training/train.py --out runs/tiny --part-minutes 9        # run again to go on where it stopped
    python training/train.py --smoke --out /tmp/smoke                # a minute on a CPU: the same code, smaller

Objective (LLaDA, arXiv:2502.09992, Eq. 3): draw t in (0, 1], mask every response token with probability t, and
weigh the cross-entropy of the masked ones by 1/t. The prompt is never masked; end-of-text fills the canvas.
No decoder takes part in training, and nothing in the data or the loss knows of one.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file

from data import WIDTH, Maker, Shard, stream
from muon import Muon
from unmask.models.backbone import Backbone
from unmask.models.checkpoint import empty_backbone, load_backbone, to_checkpoint
from unmask.models.spec import LLADA, build_spec

CANVAS = 160  # the default canvas of the finished model
TINY = Path(__file__).parent.parent / "src" / "unmask" / "tiny"


@dataclass(frozen=True)
class Config:
    width: int = 192
    layers: int = 16
    heads: int = 6
    mlp_width: int = 512
    batch: int = 1024
    steps: int = 10_000
    warmup: int = 200
    cooldown: float = 0.6  # share of the run over which the rate falls to zero
    muon_lr: float = 0.02
    adam_lr: float = 3e-3
    decay: float = 0.01
    infill: float = 0.0  # share of examples with given spans; the rest of the response is masked at rate t
    share: float = 0.65  # of word problems; the rest are functions
    seed: int = 325
    shard: int = 8192  # examples made at a time
    # Prompt + canvas lengths. Rows of one batch share a length and need no padding; the canvas behind a
    # prompt of p tokens is length - p, so the model meets canvases from about 70 to 230 tokens.
    lengths: tuple[int, ...] = (160, 208, 256)

    @classmethod
    def infilling(cls) -> Config:
        """Second stage: half the examples have random spans given, as when a user fills in the middle.

        Random masks alone never show a long visible span beside a long masked one, and the model's sense of how
        much is left to say breaks down there (docs/decisions.md). The spans have no preferred direction."""
        return cls(steps=3300, warmup=100, cooldown=1.0, muon_lr=0.01, adam_lr=1.5e-3, infill=0.5, seed=326)

    def rate(self, step: int) -> float:
        """Warm-up, plateau, linear decay to zero."""
        left = (self.steps - step) / (self.cooldown * self.steps)
        return max(0.0, min(1.0, (step + 1) / self.warmup, left))


SMOKE = Config(width=32, layers=14, heads=2, mlp_width=64, batch=8, steps=24, warmup=4, shard=128, lengths=(160, 256))


def model_config(config: Config, tokenizer) -> dict:
    """config.json in LLaDA's published form, inactive fields included."""
    rows = -(-(max(tokenizer.get_vocab().values()) + 1) // 16) * 16
    ids = {name: tokenizer.token_to_id(f"<|{name}|>") for name in ("mdm_mask", "endoftext")}
    return {
        "activation_type": "silu", "alibi": False, "architectures": ["LLaDAModelLM"], "attention_dropout": 0.0,
        "attention_layer_norm": False, "bias_for_layer_norm": False, "block_group_size": 1, "block_type": "llama",
        "d_model": config.width, "embedding_dropout": 0.0, "embedding_size": rows,
        "eos_token_id": ids["endoftext"], "flash_attention": False, "include_bias": False,
        "include_qkv_bias": False, "input_emb_norm": False, "layer_norm_type": "rms",
        "layer_norm_with_affine": True, "mask_token_id": ids["mdm_mask"], "max_sequence_length": WIDTH + 64,
        "mlp_hidden_size": config.mlp_width, "mlp_ratio": 4, "model_type": "llada", "multi_query_attention": None,
        "n_heads": config.heads, "n_kv_heads": config.heads, "n_layers": config.layers,
        "pad_token_id": ids["endoftext"], "residual_dropout": 0.0, "rms_norm_eps": 1e-5, "rope": True,
        "rope_full_precision": True, "rope_theta": 10000.0, "scale_logits": False, "use_cache": False,
        "vocab_size": rows, "weight_tying": False,
    }  # fmt: skip


def initialise(net: Backbone, layers: int) -> None:
    for name, p in net.named_parameters():
        if p.ndim == 1:
            torch.nn.init.ones_(p)
        elif name == "head.weight":
            torch.nn.init.zeros_(p)
        else:
            narrow = name.endswith(("out.weight", "down.weight"))
            torch.nn.init.normal_(p, std=0.02 / math.sqrt(2 * layers) if narrow else 0.05)


def optimisers(net: Backbone, config: Config) -> list[torch.optim.Optimizer]:
    fused = {"qkv": 3, "gate_up": 2}
    matrices = [(p, fused.get(n.split(".")[-2], 1)) for n, p in net.blocks.named_parameters() if p.ndim == 2]
    rest = [p for n, p in net.named_parameters() if p.ndim == 1 or n in ("embed.weight", "head.weight")]
    adam = torch.optim.AdamW(rest, lr=config.adam_lr, betas=(0.9, 0.98), weight_decay=0.0)
    return [Muon(matrices, config.muon_lr, decay=config.decay), adam]


def token_losses(net: Backbone, states: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    logits = net.readout(states)
    return F.cross_entropy(logits.flatten(0, 1).float(), tokens.flatten(), reduction="none").view_as(tokens)


def loss_on(net: Backbone, tokens, prompt, t, noise, given=None, losses_of=token_losses):
    """tokens (B, T), prompt (B,), t (B,), noise (B, T) uniform -> the 1/t-weighted loss, and its plain mean.

    `given` (B, T) marks spans that are never masked: they belong to the prompt."""
    positions = torch.arange(tokens.shape[1], device=tokens.device)
    response = positions[None] >= prompt[:, None]
    if given is not None:
        response &= ~given
    masked = response & (noise < t[:, None])
    corrupt = torch.where(masked, net.spec.mask_id, tokens)
    losses = losses_of(net, net.states(corrupt, None, net.spec.layers)[-1], tokens) * masked
    weighted = (losses / t[:, None]).sum() / response.sum()
    return weighted, losses.sum().detach() / masked.sum().clamp_min(1)


def given_spans(prompt: torch.Tensor, used: torch.Tensor, length: int, share: float, rng: torch.Generator):
    """(B, T): for a share of the rows, one side of a random cut is given, or one span between two, or all but it.

    Cuts fall anywhere from the start of the response to a little behind its end, in either direction alike."""
    device = prompt.device
    n = len(prompt)
    cuts = torch.rand((n, 2), generator=rng, device=device).sort(dim=1).values
    span = torch.clamp(used - prompt + 16, max=length)
    low, high = (prompt[:, None] + cuts * span[:, None]).T
    kind = torch.randint(0, 4, (n,), generator=rng, device=device)[:, None]
    x = torch.arange(length, device=device)[None]
    before, after = x < low[:, None], x >= high[:, None]
    given = torch.where(kind == 0, before, torch.where(kind == 1, after, before | after))
    given = torch.where(kind == 3, ~(before | after), given)
    return given & (torch.rand((n, 1), generator=rng, device=device) < share)


def batches(shard: Shard, config: Config, index: int):
    """Batches of a shard. Every row draws one of the lengths it fits; what is left over of a length moves up to
    the next one, so that each batch is of one length, no row is lost and none is padded."""
    rng = np.random.default_rng([config.seed, index])
    lengths = np.array(config.lengths)
    fits = lengths[None] >= shard.used[:, None]
    first = fits.argmax(axis=1)
    drawn = first + (rng.random(len(shard)) * (len(lengths) - first)).astype(int)
    cut: list[tuple[int, np.ndarray]] = []
    over = np.array([], dtype=np.int64)
    for k, length in enumerate(lengths):
        rows = np.concatenate((over, rng.permutation(np.flatnonzero(drawn == k))))
        whole = len(rows) // config.batch * config.batch
        cut += [(int(length), part) for part in rows[:whole].reshape(-1, config.batch)]
        over = rows[whole:]
    for i in rng.permutation(len(cut)):
        length, rows = cut[i]
        rows = rng.permutation(rows)  # t follows the order of the rows: it must not follow their length
        tokens = torch.from_numpy(shard.tokens[rows, :length].astype(np.int64))
        yield tokens, torch.from_numpy(shard.prompt[rows]), torch.from_numpy(shard.used[rows])


def place_weights(net: Backbone, folder: Path) -> None:
    """Start from the published weights of an earlier stage."""
    weights = dict(load_backbone(folder).named_parameters())
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            parameter.copy_(weights[name])


class Trainer:
    def __init__(
        self, config: Config, out: Path, device: torch.device, compile_: bool, init: Path | None = None
    ) -> None:
        from tokenizers import Tokenizer

        self.config, self.out, self.device = config, out, device
        out.mkdir(parents=True, exist_ok=True)
        for name in ("tokenizer.json", "tokenizer_config.json"):
            (out / name).write_bytes((TINY / name).read_bytes())
        self.json = model_config(config, Tokenizer.from_file(str(out / "tokenizer.json")))
        (out / "config.json").write_text(json.dumps(self.json, indent=2) + "\n")
        (out / "unmask.json").write_text(json.dumps({"canvas_length": CANVAS}) + "\n")
        torch.manual_seed(config.seed)
        self.spec = build_spec(self.json, LLADA, out / "config.json", {})
        self.net = empty_backbone(self.spec, device, torch.float32)
        initialise(self.net, config.layers)
        self.optimisers = optimisers(self.net, config)
        if device.type == "cuda":  # residual stream in bfloat16: the model is small, its traffic is the cost
            self.net.embed.register_forward_hook(lambda _module, _inputs, x: x.bfloat16())
        self.token_losses = torch.compile(token_losses, dynamic=False) if compile_ else token_losses
        if compile_:  # block by block: one compilation per length serves all layers
            for block in self.net.blocks:
                block.compile(dynamic=False)
        self.step, self.seconds = 0, 0.0
        if (out / "state.pt").exists():
            self.restore()
        elif init:
            place_weights(self.net, init)

    @property
    def batches_per_shard(self) -> int:
        return self.config.shard // self.config.batch

    def draw(self, prompt: torch.Tensor, used: torch.Tensor, length: int) -> tuple[torch.Tensor, ...]:
        """t stratified over the batch, uniform noise, given spans: pure functions of the step."""
        rng = torch.Generator(device=self.device).manual_seed(self.config.seed * 1_000_003 + self.step)
        n = len(prompt)
        offset = torch.rand(1, generator=rng, device=self.device)
        t = (torch.arange(n, device=self.device) + offset) / n
        noise = torch.rand((n, length), generator=rng, device=self.device)
        given = given_spans(prompt, used, length, self.config.infill, rng) if self.config.infill else None
        return t.clamp(1e-3, 1.0), noise, given

    def train_step(self, tokens: torch.Tensor, prompt: torch.Tensor, used: torch.Tensor) -> torch.Tensor:
        for optimiser, base in zip(self.optimisers, (self.config.muon_lr, self.config.adam_lr), strict=True):
            for group in optimiser.param_groups:
                group["lr"] = base * self.config.rate(self.step)
        tokens, prompt, used = (x.to(self.device) for x in (tokens, prompt, used))
        t, noise, given = self.draw(prompt, used, tokens.shape[1])
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
            loss, plain = loss_on(self.net, tokens, prompt, t, noise, given, self.token_losses)
        loss.backward()
        for optimiser in self.optimisers:
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
        self.step += 1
        return torch.stack((loss.detach(), plain))

    def run(self, until: float, workers: int, log_every: int, stop_at: int | None = None) -> bool:
        """Train until the step budget or the clock runs out. True when the whole run is finished."""
        c, first = self.config, self.step // self.batches_per_shard
        begun = time.monotonic()
        for index, shard in enumerate(stream(self.out, c.seed, c.share, c.shard, first, workers), first):
            for number, batch in enumerate(batches(shard, self.config, index)):
                if index * self.batches_per_shard + number < self.step:
                    continue  # done before the interruption
                losses = self.train_step(*batch)
                if self.step % log_every == 0 or self.step == self.config.steps:
                    self.log(losses, self.seconds + time.monotonic() - begun)
                if self.step in (self.config.steps, stop_at) or time.monotonic() > until:
                    self.seconds += time.monotonic() - begun
                    return self.step >= self.config.steps
        raise AssertionError("the stream of shards is endless")

    def log(self, losses: torch.Tensor, seconds: float, **more) -> None:
        weighted, plain = losses.tolist()
        line = {"step": self.step, "seconds": round(seconds, 1), "loss": round(weighted, 4), "ce": round(plain, 4)}
        line.update(more)
        with (self.out / "log.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(json.dumps(line), flush=True)

    @torch.no_grad()
    def validation_loss(self, examples: int = 1024) -> tuple[float, float]:
        """Loss on the validation split at fixed noise."""
        shard = Maker(str(self.out), self.config.seed, self.config.share).shard(0, examples, "validation")
        tokens = torch.from_numpy(shard.tokens.astype(np.int64)).to(self.device)
        prompt = torch.from_numpy(shard.prompt).to(self.device)
        rng = torch.Generator(device=self.device).manual_seed(0)
        t = ((torch.arange(len(shard), device=self.device) + 0.5) / len(shard)).clamp(1e-3, 1)
        noise = torch.rand(tuple(tokens.shape), generator=rng, device=self.device)
        parts = [
            loss_on(self.net, *(part.contiguous() for part in batch))
            for batch in zip(*(x.split(256) for x in (tokens, prompt, t, noise)), strict=True)
        ]
        return tuple(float(torch.stack(column).mean()) for column in zip(*parts, strict=True))

    def save(self) -> None:
        """Weights in the published form (float16), the recipe beside them, and the exact state to resume from."""
        weights = {key: tensor.half() for key, tensor in to_checkpoint(self.net).items()}
        save_file(weights, self.out / "model.safetensors", metadata={"format": "pt"})
        recipe = {
            "config": asdict(self.config), "step": self.step, "seconds": round(self.seconds, 1),
            "parameters": sum(p.numel() for p in self.net.parameters()), "torch": torch.__version__,
            "device": torch.cuda.get_device_name() if self.device.type == "cuda" else platform.machine(),
        }  # fmt: skip
        (self.out / "training.json").write_text(json.dumps(recipe, indent=2) + "\n")
        state = {"net": self.net.state_dict(), "step": self.step, "seconds": self.seconds}
        state["optimisers"] = [optimiser.state_dict() for optimiser in self.optimisers]
        torch.save(state, self.out / "state.partial")
        (self.out / "state.partial").replace(self.out / "state.pt")

    def restore(self) -> None:
        state = torch.load(self.out / "state.pt", map_location=self.device, weights_only=True)
        self.net.load_state_dict(state["net"])
        for optimiser, saved in zip(self.optimisers, state["optimisers"], strict=True):
            optimiser.load_state_dict(saved)
        self.step, self.seconds = state["step"], state["seconds"]
        print(f"resumed at step {self.step}", flush=True)


def held_out_accuracy(folder: Path, device: torch.device, limit: int) -> dict[str, float]:
    """Accuracy of the saved weights on the validation split, one token per forward, as the model's default."""
    import unmask

    model = unmask.load(folder, device=device)
    accuracy = {}
    for name in ("wordproblems", "functions"):
        task = unmask.tasks.get(name)
        examples = list(task.examples("validation", limit, seed=1))
        prompts = [example.prompt for example in examples]
        outs = unmask.generate(model, prompts, decoder="default", canvas_length=160)
        right = sum(task.score(e, o.text).correct for e, o in zip(examples, outs, strict=True))
        accuracy[name] = right / limit
    return accuracy


def main() -> None:
    parser = argparse.ArgumentParser(description="Train the embedded model; run again to resume.")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--init", type=Path, help="second stage (infilling), from the weights in this folder")
    parser.add_argument("--part-minutes", type=float, default=9.0, help="stop and save after this long")
    parser.add_argument("--steps", type=int, help="length of the whole run")
    parser.add_argument("--workers", type=int, default=max(1, (torch.multiprocessing.cpu_count() or 2) - 1))
    parser.add_argument("--accuracy", type=int, default=128, help="held-out problems decoded at the end of a part")
    parser.add_argument("--smoke", action="store_true", help="a tiny run on whatever is here")
    parser.add_argument("--no-compile", action="store_true")
    arguments = parser.parse_args()
    until = time.monotonic() + 60 * arguments.part_minutes
    config = SMOKE if arguments.smoke else Config.infilling() if arguments.init else Config()
    if arguments.steps:
        config = replace(config, steps=arguments.steps)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.set_float32_matmul_precision("high")
    compile_ = device.type == "cuda" and not arguments.no_compile
    trainer = Trainer(config, arguments.out, device, compile_, arguments.init)
    finished = trainer.run(until, arguments.workers, log_every=4 if arguments.smoke else 100)
    trainer.save()
    weighted, plain = trainer.validation_loss(64 if arguments.smoke else 1024)
    print(json.dumps({"step": trainer.step, "validation_loss": weighted, "validation_ce": plain}), flush=True)
    if arguments.accuracy:
        accuracy = held_out_accuracy(arguments.out, device, arguments.accuracy)
        with (arguments.out / "log.jsonl").open("a") as file:
            file.write(json.dumps({"step": trainer.step, "held_out_accuracy": accuracy}) + "\n")
        print(json.dumps(accuracy), flush=True)
    print("finished" if finished else "to be continued: run the same command again", flush=True)


if __name__ == "__main__":
    main()
