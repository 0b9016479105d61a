"""Tokenizers and chat templates of both families, without transformers.

LLaDA ships tokenizer.json. Dream ships vocab.json + merges.txt (a Qwen2 byte-level BPE), from which the
same fast tokenizer is built here. Answers are cut at stop *ids*: special tokens in text may be spelled by
a user, ids may not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as FastTokenizer

from unmask.errors import UserError
from unmask.models.spec import ModelSpec, read_json

Message = Mapping[str, str]

# Characters without a meaning of their own, the likeliest to occur in no message.
PRIVATE = (range(0xE000, 0xF900), range(0xF0000, 0xFFFFE), range(0x100000, 0x10FFFE))
# Qwen2's split: contractions, words, single digits, punctuation runs, line ends, spaces.
QWEN_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


@dataclass
class Tokenizer:
    fast: FastTokenizer
    mask_id: int
    stop_ids: frozenset[int]
    chat_template: str
    special: Mapping[str, str] = field(default_factory=dict)  # bos_token, eos_token, ... for the template
    unk_id: int | None = None
    chat_tokens: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Ids below this exist; the model's head may have more rows, which no decoder may choose."""
        return self.fast.get_vocab_size(with_added_tokens=True)

    @cached_property
    def highest_id(self) -> int:
        return max(self.fast.get_vocab(with_added_tokens=True).values())

    def encode(self, text: str) -> list[int]:
        """Text to ids, nothing added. A special token that is spelled out becomes that token."""
        return _encode(self.fast, text)

    def decode(self, ids: Sequence[int]) -> str:
        return self.fast.decode(list(ids), skip_special_tokens=True)

    def piece(self, token_id: int) -> str:
        """How one token looks on its own: for canvases, tables and traces."""
        text = self.fast.decode([token_id], skip_special_tokens=False)
        return text or (self.fast.id_to_token(token_id) or f"<{token_id}>")

    def cut(self, ids: Sequence[int]) -> list[int]:
        """The answer: everything strictly before the first stop id."""
        for i, token_id in enumerate(ids):
            if token_id in self.stop_ids:
                return list(ids[:i])
        return list(ids)

    def render(self, messages: Sequence[Message]) -> str:
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        environment.globals["raise_exception"] = _raise
        try:
            template = environment.from_string(self.chat_template)
            return template.render(messages=list(messages), add_generation_prompt=True, **self.special)
        except Exception as error:  # a template is foreign code: whatever it raises is its failure
            raise UserError(f"the chat template could not be rendered: {error}") from None

    def encode_chat(self, messages: Sequence[Message]) -> list[int]:
        """The ids of a conversation. Turns are marked by the template alone: what a message says is text, even
        where it spells a special token, so that nobody's content can end a turn or open another."""
        lacking = [t for t in self.chat_tokens if t in self.chat_template and self.fast.token_to_id(t) is None]
        if lacking:
            raise UserError(
                f"the tokenizer lacks {lacking[0]}, which marks turns: this is a base model without a chat format; "
                "give the prompt as it is (raw=True, --raw)"
            )
        said = "".join(text for message in messages for text in message.values() if isinstance(text, str))
        if any(token in said for token in self.special_ids):
            return self.encode_guarded(messages, said)
        return self.encode(self.render(messages))

    def encode_guarded(self, messages: Sequence[Message], said: str) -> list[int]:
        """As `encode_chat`, where messages spell special tokens: each spelling is broken by a character that occurs
        nowhere, so that the special tokens of the rendered text are the template's."""
        used = set(said)
        guard = next((sign for sign in map(chr, chain.from_iterable(PRIVATE)) if sign not in used), None)
        if guard is None:
            raise UserError("the messages use every private-use character there is: leave one out")
        spelled = re.compile("|".join(map(re.escape, sorted(self.special_ids, key=len, reverse=True))))

        def broken(text: Any) -> Any:
            return spelled.sub(lambda m: m[0][0] + guard + m[0][1:], text) if isinstance(text, str) else text

        rendered = self.render([{key: broken(text) for key, text in message.items()} for message in messages])
        ids: list[int] = []
        for part in re.split(f"({spelled.pattern})", rendered):
            if part in self.special_ids:
                ids.append(self.special_ids[part])
            else:
                ids += _encode(self.without_special, part.replace(guard, ""))
        return ids

    @cached_property
    def special_ids(self) -> dict[str, int]:
        return {t.content: i for i, t in self.fast.get_added_tokens_decoder().items() if t.special}

    @cached_property
    def without_special(self) -> FastTokenizer:
        """The same tokenizer, to which a special token is text like any other. A copy: the switch is its state."""
        twin = FastTokenizer.from_str(self.fast.to_str())
        twin.encode_special_tokens = True
        return twin

    def unknown_words(self, text: str) -> list[str]:
        """The words of `text` that this vocabulary lacks: they become the unknown token, or are spelled out in
        letters. None for the byte-level vocabularies of the large models."""
        if self.unk_id is None:
            return []
        words = dict.fromkeys(re.findall(r"[^\W\d_]+|[^\x00-\x7f]|[\x00-\x09\x0b-\x1f\x7f]", text))
        return [word for word in words if not (self.knows(word) or self.knows(f" {word}"))]

    def knows(self, piece: str) -> bool:
        ids = self.encode(piece)
        return len(ids) == 1 and ids[0] != self.unk_id


def _encode(fast: FastTokenizer, text: str) -> list[int]:
    try:
        return fast.encode(text, add_special_tokens=False).ids
    except TypeError:  # what the library says of half a surrogate pair
        raise UserError("the text is not valid Unicode: it cannot be encoded") from None


def _raise(message: str) -> None:
    raise TemplateError(message)


def load_tokenizer(folder: Path, spec: ModelSpec) -> Tokenizer:
    """tokenizer.json, or vocab.json + merges.txt; tokenizer_config.json for added tokens and the template."""
    path = folder / "tokenizer_config.json"
    config = read_json(path) if path.exists() else {}
    if (folder / "tokenizer.json").exists():
        fast = _read_fast(folder / "tokenizer.json")
    elif (folder / "vocab.json").exists() and (folder / "merges.txt").exists():
        fast = _build_qwen(folder, config)
    else:
        raise UserError(f"{folder} has neither tokenizer.json nor vocab.json + merges.txt")
    template = _chat_template(folder, config)
    tokenizer = tokenizer_from(fast, {**config, "chat_template": template}, spec)
    if tokenizer.highest_id >= spec.rows:
        raise UserError(f"{folder}: the tokenizer has id {tokenizer.highest_id}, the model only {spec.rows} rows")
    return tokenizer


def tokenizer_from(fast: FastTokenizer, config: Mapping[str, Any], spec: ModelSpec) -> Tokenizer:
    """A loaded `tokenizers` object with the ids and the template of this checkpoint."""
    stop = {spec.eos_id, spec.pad_id} | {fast.token_to_id(token) for token in spec.family.stop_tokens}
    return Tokenizer(
        fast=fast,
        mask_id=spec.mask_id,
        stop_ids=frozenset(i for i in stop if i is not None),
        chat_template=config.get("chat_template") or spec.family.chat_template,
        special={k: _content(v) for k, v in config.items() if k.endswith("_token") and _content(v)},
        unk_id=_unk_id(fast),
        chat_tokens=spec.family.chat_tokens,
    )


def _read_fast(path: Path) -> FastTokenizer:
    try:
        return FastTokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare Exception for every malformed file
        raise UserError(f"{path} is not a readable tokenizer: {error}") from None


def _build_qwen(folder: Path, config: Mapping[str, Any]) -> FastTokenizer:
    try:
        bpe = models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt"))
    except Exception as error:
        raise UserError(f"{folder}: vocab.json or merges.txt is not readable: {error}") from None
    fast = FastTokenizer(bpe)
    fast.normalizer = normalizers.NFC()
    split = pre_tokenizers.Split(Regex(QWEN_SPLIT), behavior="isolated")
    bytes_ = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    fast.pre_tokenizer = pre_tokenizers.Sequence([split, bytes_])
    fast.decoder = decoders.ByteLevel()
    try:
        added = sorted(_added_tokens(folder, config).items())
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UserError(f"{folder}: the added tokens cannot be read ({type(error).__name__}: {error})") from None
    for token_id, token in added:
        fast.add_special_tokens([token]) if token.special else fast.add_tokens([token])
        if fast.token_to_id(token.content) != token_id:
            raise UserError(f"{folder}: added token {token.content!r} should have id {token_id}; ids have gaps")
    return fast


def _added_tokens(folder: Path, config: Mapping[str, Any]) -> dict[int, AddedToken]:
    listed = config.get("added_tokens_decoder")
    if listed:
        return {
            int(i): AddedToken(
                t["content"],
                special=bool(t.get("special", True)),
                normalized=bool(t.get("normalized", False)),
                lstrip=bool(t.get("lstrip", False)),
                rstrip=bool(t.get("rstrip", False)),
                single_word=bool(t.get("single_word", False)),
            )
            for i, t in listed.items()
        }
    path = folder / "added_tokens.json"
    plain = read_json(path) if path.exists() else {}
    return {int(i): AddedToken(text, special=True, normalized=False) for text, i in plain.items()}


def _chat_template(folder: Path, config: Mapping[str, Any]) -> str | None:
    path = folder / "chat_template.jinja"
    if path.exists():
        try:
            return path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"{path} cannot be read as text: {error}") from None
    template = config.get("chat_template")
    if isinstance(template, list):  # several named templates: the one called default
        named = [each for each in template if isinstance(each, dict) and isinstance(each.get("template"), str)]
        if len(named) < len(template):
            raise _no_template(folder, template)
        template = next((each["template"] for each in named if each.get("name") == "default"), None)
    if template is not None and not isinstance(template, str):
        raise _no_template(folder, template)
    return template


def _no_template(folder: Path, found: Any) -> UserError:
    where = folder / "tokenizer_config.json"
    return UserError(f"{where}: chat_template must be a text, or a list of named ones, found {str(found)[:60]!r}")


def _content(value: Any) -> str:
    return value.get("content", "") if isinstance(value, dict) else (value if isinstance(value, str) else "")


def _unk_id(fast: FastTokenizer) -> int | None:
    """Only a vocabulary of whole words has an unknown token that text can turn into: a word-level one, or a BPE
    without merges (whole words, then letters)."""
    unk = getattr(fast.model, "unk_token", None)
    if not unk or not (isinstance(fast.model, models.WordLevel) or not json.loads(fast.to_str())["model"]["merges"]):
        return None
    return fast.token_to_id(unk)
