"""Build the embedded model's tokenizer from what the task generators write.

    python training/build_tokenizer.py [--examples 200000] [--out src/unmask/tiny]

Deterministic: the same generators give the same files. The vocabulary is every word and symbol that the training
split of both tasks writes, plus every printable ASCII character with and without a space before it. A word outside
it is spelled in single characters, as byte-pair models do, so all ASCII text round-trips; only other characters
become `<unk>`. Special tokens come last, with LLaDA's names and chat template.
"""

from __future__ import annotations

import argparse
import json
import re
import string
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

from unmask.tasks import functions, wordproblems
from unmask.tasks.functions.names import LABELS, TEXT_WORDS
from unmask.tasks.pieces import PATTERN, pieces
from unmask.tasks.splits import rng_for

BOS, EOS, EOT, MASK, UNK = "<|startoftext|>", "<|endoftext|>", "<|eot_id|>", "<|mdm_mask|>", "<unk>"
SPECIAL = (BOS, EOS, "<|start_header_id|>", "<|end_header_id|>", EOT, MASK, UNK)
ROLES = ("user", "assistant", "system")

# One turn each: header, two newlines, trimmed content, end of turn; the assistant's header always opens the answer.
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{% if loop.first %}{{ bos_token }}{% endif %}"
    "{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' }}"
    "{{ message['content'] | trim + '<|eot_id|>' }}"
    "{% endfor %}"
    "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}"
)

_QUOTED = re.compile(r"'[^'\n]*'|\"[^\"\n]*\"")


def texts(examples: int) -> Iterator[str]:
    """Prompts and responses of the training split. Sample strings of functions are left to be spelled."""
    rng = rng_for("tokenizer", 1)
    for _ in range(examples):
        example = wordproblems.generate(rng)
        yield example.prompt
        yield example.response
        example = functions.generate(rng)
        yield _QUOTED.sub("''", example.prompt)
        yield _QUOTED.sub("''", example.response)


def vocabulary(examples: int) -> list[str]:
    """Ordinary pieces, the most frequent first."""
    counts: Counter[str] = Counter()
    for text in texts(examples):
        counts.update(pieces(text))
    printable = string.digits + string.ascii_letters + string.punctuation
    required = [*printable, " ", "\n", *(f" {c}" for c in string.ascii_letters + string.punctuation)]
    required += [" " * n for n in (4, 8, 12, 16)]
    required += [*ROLES, *LABELS, *TEXT_WORDS, *(f" {word}" for word in TEXT_WORDS), "True", "False", "None"]
    for piece in required:
        counts.setdefault(piece, 0)
    return sorted(counts, key=lambda piece: (-counts[piece], piece))


def tokenizer(ordinary: list[str]) -> Tokenizer:
    """A byte-pair model without merges: a piece is one token if the vocabulary has it, else its characters are."""
    vocab = {piece: i for i, piece in enumerate([*ordinary, *SPECIAL])}
    built = Tokenizer(models.BPE(vocab=vocab, merges=[], unk_token=UNK, ignore_merges=True))
    built.pre_tokenizer = pre_tokenizers.Split(Regex(PATTERN), behavior="isolated")
    built.decoder = decoders.Fuse()
    built.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    return built


def config(built: Tokenizer) -> dict[str, object]:
    """`tokenizer_config.json` as Hugging Face libraries read it."""
    flags = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True}
    return {
        "added_tokens_decoder": {str(built.token_to_id(t)): {"content": t, **flags} for t in SPECIAL},
        "bos_token": BOS,
        "eos_token": EOS,
        "pad_token": EOS,
        "unk_token": UNK,
        "mask_token": MASK,
        "chat_template": CHAT_TEMPLATE,
        "clean_up_tokenization_spaces": False,
        "model_max_length": 256,
        "tokenizer_class": "PreTrainedTokenizerFast",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--examples", type=int, default=200_000, help="of each task (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent.parent / "src/unmask/tiny")
    options = parser.parse_args()
    built = tokenizer(vocabulary(options.examples))
    options.out.mkdir(parents=True, exist_ok=True)
    built.save(str(options.out / "tokenizer.json"))
    text = json.dumps(config(built), indent=2, ensure_ascii=False)
    (options.out / "tokenizer_config.json").write_text(text + "\n", encoding="utf-8")
    print(f"{built.get_vocab_size()} tokens in {options.out}", file=sys.stderr)


if __name__ == "__main__":
    main()
