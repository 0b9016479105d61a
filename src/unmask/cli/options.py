"""What verbs share: `-o name=value` read by the parameter's own type, models, and where files may go."""

from __future__ import annotations

import contextlib
import json
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from unmask.errors import UserError, unknown

if TYPE_CHECKING:
    from unmask.decoders import Decoder
    from unmask.models import Model

ModelName = Annotated[str, Option("--model", "-m", help="tiny, a checkpoint folder, or a name on the hub")]
DecoderName = Annotated[str, Option("--decoder", "-d", help="a name from: unmask decoders")]
Options = Annotated[
    list[str] | None,
    Option("--option", "-o", metavar="NAME=VALUE", help="a decoder parameter, or @FILE.json with several"),
]
Device = Annotated[str | None, Option(help="cpu, cuda or cuda:1; CUDA where there is one by default")]
Dtype = Annotated[str | None, Option(help="float32, bfloat16, float16 or float64; the checkpoint's by default")]
Revision = Annotated[str | None, Option(help="commit, branch or tag of a model on the hub")]
ScoreDtype = Annotated[str, Option(help="precision of confidence and entropy")]
Compile = Annotated[
    bool, Option("--compile", help="replay compiled forwards as CUDA graphs (not yet measured on every device)")
]
Json = Annotated[bool, Option("--json", help="print one JSON document")]

TRUE, FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
WORDS = {
    bool: "true or false", int: "a whole number", float: "a number", str: "text", type(None): "none", Any: "anything",
}  # fmt: skip


def parse_options(name: str, given: Sequence[str] | None, spec: Any = None) -> dict[str, Any]:
    """`-o beta=4`, `-o @file.json` -> keyword arguments of the decoder called `name`. What is said beats a file."""
    from unmask import decoders

    cls, _, name = decoders.find(name, spec)
    hints = field_types(cls)
    said: dict[str, Any] = {}
    filed: dict[str, Any] = {}
    for item in given or ():
        if item.startswith("@"):
            filed |= read_options(Path(item[1:]))
            continue
        option, equals, value = item.partition("=")
        if not equals or not option:
            raise UserError(f"-o {item!r} is not an option: write -o NAME=VALUE or -o @FILE.json")
        if option in said:
            raise UserError(f"option {option} is given twice")
        said[option] = value
    options: dict[str, Any] = {}
    for option, value in (filed | said).items():
        if option not in hints:
            raise unknown_option(name, option, hints)
        options[option] = convert(name, option, value, hints[option])
    return options


def unknown_option(name: str, option: str, known: Mapping[str, Any]) -> UserError:
    if not known:
        return UserError(f"{name} takes no options, but {option!r} was given")
    return unknown(f"option of {name}", option, known)


def field_types(cls: type) -> dict[str, Any]:
    """Option name -> annotated type. A type that cannot be resolved accepts anything."""
    import dataclasses

    try:
        hints = typing.get_type_hints(cls)
    except Exception:  # a third party's annotations may need imports that only type checkers see
        hints = {}
    return {f.name: hints.get(f.name, Any) for f in dataclasses.fields(cls)}


def read_options(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"-o @{path}: cannot be read as JSON ({error})") from None
    if not isinstance(data, dict):
        raise UserError(f"-o @{path}: must hold one JSON object of option names and values")
    return data


def convert(decoder: str, option: str, value: Any, hint: Any) -> Any:
    """A value as text (from the command line) or as JSON (from a file), as the field's type."""
    arms = union_arms(hint)
    # The narrow types first: "none" is not a text where None is allowed, "4" is an int before it is a float.
    for arm in sorted(arms, key=_narrowness):
        accepted, result = _as(value, arm)
        if accepted:
            return result
    shown = value if isinstance(value, str) else json.dumps(value)
    raise UserError(f"option {option} of {decoder} takes {describe_hint(hint)}, not {shown!r}")


def describe_hint(hint: Any) -> str:
    return " or ".join(WORDS.get(arm, getattr(arm, "__name__", str(arm))) for arm in union_arms(hint))


def union_arms(hint: Any) -> tuple[Any, ...]:
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        return typing.get_args(hint)
    return (hint,)


def _narrowness(arm: Any) -> int:
    order = (type(None), bool, int, float)
    return order.index(arm) if arm in order else (len(order) + (arm is str))


def _as(value: Any, arm: Any) -> tuple[bool, Any]:
    """(accepted, converted)."""
    text = value.strip().lower() if isinstance(value, str) else None
    try:
        if arm is type(None):
            return value is None or text in ("none", "null"), None
        if arm is bool:
            return (True, value) if isinstance(value, bool) else (text in (*TRUE, *FALSE), text in TRUE)
        if value is None or isinstance(value, bool):
            return arm is Any, value
        if arm is int:
            return (True, int(text)) if text is not None else (int(value) == value, int(value))
        if arm is float:
            return True, float(text if text is not None else value)
        if arm is str:
            return isinstance(value, str), value
    except (ValueError, TypeError, OverflowError):
        return False, None
    return True, _loose(value)


def _loose(value: Any) -> Any:
    """A type this file does not know (a third party's tuple, say): JSON if it is JSON, else the text."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return value


def early_decoder(name: str, given: Sequence[str] | None) -> Decoder | None:
    """The decoder before any model is loaded, so that a typo costs no minutes; `default` has to wait."""
    from unmask import decoders

    if name == "default":
        return None
    return decoders.get(name, **parse_options(name, given))


def late_decoder(decoder: Decoder | None, name: str, given: Sequence[str] | None, model: Model) -> Decoder:
    from unmask import decoders

    return decoder or decoders.get(name, spec=model.spec, **parse_options(name, given, model.spec))


def load_model(
    name: str, device: str | None, dtype: str | None, revision: str | None, compiled: bool = False
) -> Model:
    """The model, with a word on stderr while a person waits for it."""
    from unmask import models
    from unmask.show import console

    local = models.locate(name)  # a misspelt name is an error before torch is imported
    screen = console(stderr=True)
    spins = screen.is_terminal and local  # a download from the hub draws bars of its own
    with screen.status(f"loading {name}") if spins else contextlib.nullcontext():
        model = models.load(name, revision=revision, device=check_device(device), dtype=dtype)
    if compiled and (reason := model.compile()):
        warn(reason)
    return model


def check_device(device: str | None) -> str | None:
    from unmask.models import parse_device

    if device is not None:
        parse_device(device)
    return device


def warn(sentence: str) -> None:
    import sys

    print(f"warning: {sentence}", file=sys.stderr)


def print_json(document: Any) -> None:
    """Never NaN or Infinity, which are not JSON."""
    print(json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False))


def parse_score_dtype(name: str) -> Any:
    from unmask.models import parse_dtype

    return parse_dtype(name)
