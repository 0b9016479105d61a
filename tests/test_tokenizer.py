"""Text to ids and back: the published id sequences, chat templates, and cutting an answer by id."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import checkpoints
import unmask
from reference.published import dream_config, llada_config
from unmask import UserError
from unmask.models.spec import read_spec
from unmask.models.tokenizer import Tokenizer, load_tokenizer

LLADA_IDS = {"mask": 126336, "eos": 126081, "pad": 126081}
DREAM_IDS = {"mask": 151666, "eos": 151643, "pad": 151643}
CONFIGS = {
    "llada": llada_config(dim=8, layers=1, heads=1, kv_heads=1, mlp=8, rows=126464, ids=LLADA_IDS),
    "dream": dream_config(dim=8, layers=1, heads=1, kv_heads=1, mlp=8, rows=152064, ids=DREAM_IDS),
}


@pytest.fixture(scope="session")
def published_folder(family: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """config.json with the published ids, and a tokenizer that has them."""
    folder = tmp_path_factory.mktemp("published")
    (folder / "config.json").write_text(json.dumps(CONFIGS[family]))
    return checkpoints.write_published_ids_tokenizer(folder, family)


@pytest.fixture(scope="session")
def tokenizer(published_folder: Path) -> Tokenizer:
    return load_tokenizer(published_folder, read_spec(published_folder))


def user(content: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": content}]


# --- the published sequences ----------------------------------------------------------------------------------

TURN = {
    "llada": ([126080, 126346, 3840, 126347, 198, 198], [126348, 126346, 598, 10450, 126347, 198, 198]),
    "dream": (
        [151644, 8948, 198, 2610, 525, 264, 10950, 17847, 13, 151645, 198, 151644, 872, 198],
        [151645, 198, 151644, 77091, 198],
    ),
}
DIGITS = {  # digit d is 15 + d; the space before a number is a token of its own
    "7": [22],
    "12": [16, 17],
    " 12": [220, 16, 17],
    "0123456789": list(range(15, 25)),
}


@pytest.mark.parametrize("content", ["7", "12", " 12 3"])
def test_one_user_turn(tokenizer: Tokenizer, family: str, content: str) -> None:
    before, after = TURN[family]
    digits = {" ": 220} | {str(d): 15 + d for d in range(10)}
    kept = content.strip() if family == "llada" else content  # only LLaDA's template trims
    assert tokenizer.encode_chat(user(content)) == before + [digits[c] for c in kept] + after


@pytest.mark.parametrize("text", DIGITS)
def test_numbers_are_single_digits(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.encode(text) == DIGITS[text]


def test_no_token_is_added_by_itself(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode("") == [] and len(tokenizer.encode("1")) == 1


def test_ids_of_the_special_tokens(tokenizer: Tokenizer, family: str) -> None:
    named = {
        "llada": {
            "<|startoftext|>": 126080, "<|endoftext|>": 126081, "<|mdm_mask|>": 126336,
            "<|start_header_id|>": 126346, "<|end_header_id|>": 126347, "<|eot_id|>": 126348,
        },
        "dream": {
            "<|endoftext|>": 151643, "<|im_start|>": 151644, "<|im_end|>": 151645, "<|beginoftext|>": 151665,
            "<|mask|>": 151666,
        },
    }[family]  # fmt: skip
    assert {name: tokenizer.encode(name) for name in named} == {name: [token] for name, token in named.items()}
    assert tokenizer.mask_id == {"llada": 126336, "dream": 151666}[family]  # config.json's: LLaDA names no mask token
    assert tokenizer.stop_ids == {"llada": {126081, 126348}, "dream": {151643, 151645}}[family]
    assert tokenizer.highest_id == max(named.values())  # rows above it are never chosen


# --- chat templates -------------------------------------------------------------------------------------------

CONVERSATIONS = {
    "one turn": user("What is 2 + 2?"),
    "untrimmed": user("  two\n\nlines \n"),
    "system": [{"role": "system", "content": "Be brief."}, *user("Hi")],
    "three turns": [*user("Hi"), {"role": "assistant", "content": "Hello."}, *user("Bye {{ x }} {% y %}")],
    "other scripts": user("世界 e\u0301 \u00e9 🍎 €12"),
}


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_a_checkpoint_without_a_template_gets_its_familys(
    tokenizer: Tokenizer, published_folder: Path, tmp_path: Path, name: str
) -> None:
    shutil.copytree(published_folder, tmp_path, dirs_exist_ok=True)
    config = json.loads((tmp_path / "tokenizer_config.json").read_text())
    del config["chat_template"]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    own = load_tokenizer(tmp_path, read_spec(tmp_path))
    assert own.chat_template != tokenizer.chat_template
    assert own.render(CONVERSATIONS[name]) == tokenizer.render(CONVERSATIONS[name])


def test_dream_inserts_its_system_prompt_unless_one_is_given(tokenizer: Tokenizer, family: str) -> None:
    default, own = tokenizer.render(CONVERSATIONS["one turn"]), tokenizer.render(CONVERSATIONS["system"])
    assert default.count("system\nYou are a helpful assistant.") == (family == "dream")
    assert own.count("Be brief.") == 1 and "helpful" not in own
    assert default.endswith({"llada": "assistant<|end_header_id|>\n\n", "dream": "assistant\n"}[family])


def test_the_first_message_alone_gets_a_beginning(tokenizer: Tokenizer, family: str) -> None:
    ids = tokenizer.encode_chat(CONVERSATIONS["three turns"])
    assert ids.count(126080) == (family == "llada") and ids.count(151665) == 0


def edit(folder: Path, **fields: Any) -> None:
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


@pytest.fixture
def small(checkpoint: Path, tmp_path: Path) -> Path:
    """A copy of the small checkpoint's folder, without its weights."""
    return Path(shutil.copytree(checkpoint, tmp_path / "copy", ignore=shutil.ignore_patterns("*.safetensors*")))


def reload(folder: Path) -> Tokenizer:
    return load_tokenizer(folder, read_spec(folder))


def test_where_a_template_is_found(small: Path) -> None:
    edit(small, chat_template="config: {{ messages[0]['content'] }}")
    assert reload(small).render(user("x")) == "config: x"
    named = [
        {"name": "tool_use", "template": "wrong"},
        {"name": "default", "template": "list: {{ messages|length }}"},
    ]
    edit(small, chat_template=named)
    assert reload(small).render(user("x")) == "list: 1"
    edit(small, chat_template=named[:1])  # no default among them: the family's
    assert "user" in reload(small).render(user("x"))
    (small / "chat_template.jinja").write_text("{% if true %}\nfile: {{ messages[0].content }}{% endif %}")
    assert reload(small).render(user("x")) == "file: x"  # blocks take their line end with them


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{{ raise_exception('roles must alternate') }}", "roles must alternate"),
        ("{% if %}", "could not be rendered"),
        ("{{ messages[7]['content'] }}", "could not be rendered"),
        ("{{ ''.__class__.__mro__ }}", "could not be rendered"),  # a checkpoint may not run code
        ("{{ messages[0]['content'] + 1 }}", "could not be rendered"),
    ],
)
def test_a_template_that_fails(small: Path, template: str, words: str) -> None:
    edit(small, chat_template=template)
    with pytest.raises(UserError, match=words):
        reload(small).render(user("x"))


# --- what users write -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["The user's 世界 costs €12.50;\n\n\tthe assistant.", "  a\r\n\r\nb  ", "🍎" * 3, ""]
)
def test_any_text_survives(model: unmask.Model, text: str) -> None:
    assert model.tokenizer.decode(model.tokenizer.encode(text)) == text


def test_dream_composes_characters_as_qwen_does(tokenizer: Tokenizer, family: str) -> None:
    composed, split = "\u00e9", "e\u0301"
    assert (tokenizer.encode(composed) == tokenizer.encode(split)) == (family == "dream")


SPELLED = {"llada": ("<|eot_id|>", 126348), "dream": ("<|im_end|>", 151645)}


def test_a_special_token_spelled_in_a_message_is_text(tokenizer: Tokenizer, family: str) -> None:
    """Nobody's content ends a turn, opens another or holds a mask; spelled in a raw prompt, it is that token."""
    spelled, token = SPELLED[family]
    before, after = TURN[family]
    ids = tokenizer.encode_chat(user(f"1{spelled}2"))
    assert ids[: len(before) + 1] == [*before, 16] and ids[-len(after) - 1 :] == [17, *after]
    letters = ids[len(before) + 1 : -len(after) - 1]
    assert tokenizer.decode(letters) == spelled and not set(letters) & set(tokenizer.special_ids.values())
    assert tokenizer.encode(f"1{spelled}2") == [16, token, 17]


@given(st.lists(st.sampled_from(["<|eot_id|>", "<|im_end|>", "<|mdm_mask|>", "<|mask|>", "<|", "|>", "eot_id", "\n",
                                 "\ue000", "user", " 12", "é", "<|im_start|>system\n"]), max_size=8))  # fmt: skip
def test_no_message_can_shape_the_conversation(tokenizer: Tokenizer, parts: list[str]) -> None:
    """The special tokens are the template's, whatever is said; what is said without any is encoded as ever."""
    special = set(tokenizer.special_ids.values())
    said = "".join(parts)
    ids = tokenizer.encode_chat([{"role": "system", "content": said}, *user(said + "?")])
    frame = tokenizer.encode_chat([{"role": "system", "content": "x"}, *user("x?")])
    assert [i for i in ids if i in special] == [i for i in frame if i in special]
    plain = said.replace("|", "")
    assert tokenizer.encode_guarded(user(plain), plain) == tokenizer.encode(tokenizer.render(user(plain)))


def test_a_message_of_private_characters_is_text_like_any_other(tokenizer: Tokenizer, family: str) -> None:
    """What breaks a spelled token must occur nowhere; only who says every such character cannot be helped."""
    spelled, token = SPELLED[family]
    frame = tokenizer.encode_chat(user("x")).count(token)
    assert tokenizer.encode_chat(user("".join(map(chr, range(0xE000, 0xF900))) + spelled)).count(token) == frame
    every = "".join(map(chr, (*range(0xE000, 0xF900), *range(0xF0000, 0xFFFFE), *range(0x100000, 0x10FFFE))))
    with pytest.raises(UserError, match="leave one out"):
        tokenizer.encode_chat(user(every + spelled))


def test_a_role_is_text_too(tokenizer: Tokenizer, family: str) -> None:
    spelled, token = SPELLED[family]
    ids = tokenizer.encode_chat([{"role": f"user{spelled}", "content": "1"}])
    assert ids.count(token) == tokenizer.encode_chat(user("1")).count(token)


def test_a_base_model_without_turn_tokens_takes_raw_prompts_only(
    published_folder: Path, tmp_path: Path, family: str
) -> None:
    """LLaDA-8B-Base ships a chat template that its tokenizer cannot encode."""
    if family != "llada":
        pytest.skip("Dream's base tokenizer has the tokens")
    shutil.copytree(published_folder, tmp_path, dirs_exist_ok=True)
    path = tmp_path / "tokenizer.json"
    data = json.loads(path.read_text())
    data["added_tokens"] = [t for t in data["added_tokens"] if t["id"] < 126346]
    path.write_text(json.dumps(data))
    base = reload(tmp_path)
    with pytest.raises(UserError, match=r"lacks <\|start_header_id\|>.*base model.*--raw"):
        base.encode_chat(user("Hi"))
    assert base.encode("12") == [16, 17]
    edit(tmp_path, chat_template="User: {{ messages[0]['content'] }}")  # a template of its own is used
    assert reload(tmp_path).encode_chat(user("12"))[-2:] == [16, 17]


def test_a_family_template_needs_no_tokenizer_config(published_folder: Path, tmp_path: Path, family: str) -> None:
    if family != "llada":
        pytest.skip("Dream's added tokens are in that file")
    shutil.copytree(published_folder, tmp_path, dirs_exist_ok=True)
    (tmp_path / "tokenizer_config.json").unlink()
    before, after = TURN[family]
    assert reload(tmp_path).encode_chat(user("12")) == [*before, 16, 17, *after]  # the beginning included


def test_an_answer_is_cut_at_the_first_stop_id_never_at_its_spelling(tokenizer: Tokenizer, family: str) -> None:
    spelled, turn, end = {
        "llada": ("<|eot_id|>", 126348, 126081),
        "dream": ("<|im_end|>", 151645, 151643),
    }[family]
    letters = [token for c in spelled for token in tokenizer.encode(c)]  # the same text from ordinary tokens
    assert tokenizer.decode(letters) == spelled and turn not in letters
    assert tokenizer.cut([22, *letters, 23]) == [22, *letters, 23]
    assert tokenizer.cut([22, *letters, end, 23, turn]) == [22, *letters]
    assert tokenizer.cut([22, turn, end]) == [22]
    assert tokenizer.cut([turn]) == [] and tokenizer.cut([]) == []
    other = {"llada": 126080, "dream": 151644}[family]  # special, but no end: cut by neither id nor text
    assert tokenizer.cut([22, other, 23]) == [22, other, 23]
    assert tokenizer.decode([22, other, 23]) == "78"


def test_dlm_pad_ends_an_answer_where_a_checkpoint_has_it(
    published_folder: Path, tmp_path: Path, family: str
) -> None:
    if family != "dream":
        pytest.skip("a token of DiffuCoder")
    shutil.copytree(published_folder, tmp_path, dirs_exist_ok=True)
    config = json.loads((tmp_path / "tokenizer_config.json").read_text())
    config["added_tokens_decoder"]["151667"] = {"content": "<|dlm_pad|>", "special": True}
    edit(tmp_path, **config)
    assert reload(tmp_path).cut([22, 151667, 22]) == [22]


# --- bad folders ----------------------------------------------------------------------------------------------


def test_files_that_are_missing_or_damaged(small: Path, family: str) -> None:
    names = ["tokenizer.json"] if family == "llada" else ["vocab.json", "merges.txt"]
    for name in names:
        content = (small / name).read_text()
        (small / name).write_text("{broken")
        with pytest.raises(UserError, match=r"not (a )?readable"):
            reload(small)
        (small / name).unlink()
        with pytest.raises(UserError, match=r"neither tokenizer\.json nor"):
            reload(small)
        (small / name).write_text(content)
    (small / "tokenizer_config.json").write_text("{broken")
    with pytest.raises(UserError, match=r"tokenizer_config\.json is not valid JSON"):
        reload(small)


def test_added_tokens_with_gaps(small: Path, family: str) -> None:
    if family != "dream":
        pytest.skip("tokenizer.json carries its own ids")
    config = json.loads((small / "tokenizer_config.json").read_text())
    first = min(config["added_tokens_decoder"], key=int)
    del config["added_tokens_decoder"][first]
    edit(small, **config)
    with pytest.raises(UserError, match="should have id"):
        reload(small)


@pytest.mark.parametrize("ours", ["rows", "mask_id"])
def test_a_tokenizer_the_model_has_no_rows_for(small: Path, ours: str, family: str) -> None:
    path = small / "config.json"
    config = json.loads(path.read_text())
    key = {"rows": "embedding_size" if family == "llada" else "vocab_size", "mask_id": "mask_token_id"}[ours]
    path.write_text(json.dumps(config | {key: 260 if ours == "rows" else 320}))
    with pytest.raises(UserError, match="rows"):
        reload(small)
