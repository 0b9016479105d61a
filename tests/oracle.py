"""A model that knows its answer: readable decodes of a fixed text, in milliseconds, without weights.

`oracle()` is an ordinary Model. Whatever the prompt, every position proposes its token of ANSWER; it is the
more certain the fewer masks stand before it, digits need everything before them, and a full stop settles
only in the last layer (so that the stability test has something to refuse).
"""

from __future__ import annotations

from dataclasses import replace

import torch
from tokenizers import AddedToken, Regex, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as FastTokenizer

from checkpoints import LLADA_TEMPLATE
from unmask.models import Model
from unmask.models.spec import LLADA, ModelSpec
from unmask.models.tokenizer import Tokenizer
from unmask.tasks.pieces import PATTERN, pieces

PROMPT = "Mia has 12 apples and buys 30 more. How many now?"
ANSWER = "Mia starts with 12 apples.\nAfter buying 30 she has 12 + 30 = 42 apples.\n#### 42"
SPECIAL = ("<|startoftext|>", "<|endoftext|>", "<|mdm_mask|>", "<|eot_id|>", "<|start_header_id|>",
           "<|end_header_id|>", "[UNK]")  # fmt: skip
CANVAS = 64
LAYERS = 12


def oracle(answer: str = ANSWER, name: str = "oracle") -> Model:
    tokenizer, ids = _tokenizer(answer)
    spec = ModelSpec(
        family=replace(LLADA), width=3, layers=LAYERS, heads=1, kv_heads=1, mlp_width=1, rows=len(ids),
        norm_eps=1e-5, rope_theta=1e4, context=512, mask_id=ids["<|mdm_mask|>"], eos_id=ids["<|endoftext|>"],
        pad_id=ids["<|endoftext|>"], qkv_bias=False, rope_full_precision=True, canvas_length=CANVAS,
    )  # fmt: skip
    return Model(name, OracleNet(spec, [ids[piece] for piece in pieces(answer)], ids), tokenizer)


class OracleNet:
    """States are (token, certainty, layer); the readout turns them into one-hot logits of that height."""

    device, dtype = torch.device("cpu"), torch.float32

    def __init__(self, spec: ModelSpec, answer: list[int], ids: dict[str, int]) -> None:
        self.spec, self.answer = spec, answer
        self.digits = {ids[digit] for digit in "0123456789" if digit in ids}
        self.header_end = ids["<|end_header_id|>"]
        self.late = {ids["."]} if "." in ids else set()

    def states(self, ids, attention_mask=None, keep_from=0):
        final = torch.stack([self.row(row) for row in ids.tolist()])
        hidden = []
        for layer in range(self.spec.layers + 1):
            state = final.clone()
            state[..., 1] *= 0.4 + 0.6 * layer / self.spec.layers
            state[..., 2] = layer
            hidden.append(state if layer >= keep_from else None)
        return hidden

    def row(self, ids: list[int]):
        # The canvas begins behind the last header of the chat template and its blank line.
        headers = [n for n, token in enumerate(ids) if token == self.header_end]
        start = headers[-1] + 3 if headers else 0
        rows = []
        for n in range(len(ids)):
            place = n - start
            token = self.answer[place] if 0 <= place < len(self.answer) else self.spec.eos_id
            window = start if token in self.digits else max(start, n - 4)
            rows.append([token, 7.5 - 0.9 * min(8, ids[window:n].count(self.spec.mask_id)), 0])
        return torch.tensor(rows, dtype=torch.float32)

    def readout(self, states):
        flat = states.reshape(-1, 3)
        token = flat[:, 0].long()
        late = torch.tensor([int(t) in self.late for t in token]) & (flat[:, 2] < self.spec.layers)
        token = torch.where(late, torch.full_like(token, self.spec.eos_id), token)
        logits = torch.zeros(len(flat), self.spec.rows)
        logits[torch.arange(len(flat)), token] = flat[:, 1]
        return logits.reshape(*states.shape[:-1], -1)

    def attention_maps(self, hidden, attention_mask, layers):
        length = hidden[layers[0]].shape[1]
        distance = (torch.arange(length)[:, None] - torch.arange(length)[None]).abs().float()
        return torch.softmax(-distance, dim=-1)[None]


def _tokenizer(answer: str) -> tuple[Tokenizer, dict[str, int]]:
    words = dict.fromkeys([*pieces(PROMPT + "\n" + answer), *"0123456789", "user", "assistant", "\n", " ", ".", "?"])
    ids = {word: n for n, word in enumerate([*SPECIAL, *words])}
    fast = FastTokenizer(models.WordLevel(ids, unk_token="[UNK]"))
    fast.pre_tokenizer = pre_tokenizers.Split(Regex(PATTERN), behavior="isolated")
    fast.decoder = decoders.Fuse()
    fast.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in SPECIAL])
    stop = frozenset(ids[token] for token in ("<|endoftext|>", "<|eot_id|>"))
    special = {"bos_token": "<|startoftext|>", "eos_token": "<|endoftext|>"}
    return Tokenizer(fast, ids["<|mdm_mask|>"], stop, LLADA_TEMPLATE, special, ids["[UNK]"]), ids
