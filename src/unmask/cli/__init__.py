"""The command line: a table of verbs, each imported only when it is called.

`unmask --help` prints the table and imports nothing else. To add a verb, write a typed function (or a
`typer.Typer` with several) in a module of its own and add one line to VERBS.

Results go to stdout, progress and warnings to stderr. A user's mistake is one sentence and exit code 2; a
bug keeps its traceback.
"""

from __future__ import annotations

import importlib
import io
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from unmask import __version__
from unmask.errors import UserError, unknown

if TYPE_CHECKING:
    import typer

# verb -> (module:function or module:typer app, help line)
VERBS: dict[str, tuple[str, str]] = {
    "demo": ("unmask.cli.demo:demo", "solve a word problem and compare three decoders"),
    "generate": ("unmask.cli.generate:generate", "answer a prompt, or fill the gaps of a text"),
    "replay": ("unmask.cli.replay:replay", "tell a recorded decode as a story, or against another decoder"),
    "eval": ("unmask.cli.evaluate:evaluate", "accuracy, NFE and throughput of decoders on a task"),
    "serve": ("unmask.serve.command:serve", "an OpenAI-compatible server, and a page that shows decodes"),
    "sweep": ("unmask.cli.sweep:sweep", "vary a decoder's parameters and draw the trade-off"),
    "profile": ("unmask.cli.profile:profile", "what a decoding step costs, against what the hardware allows"),
    "report": ("unmask.cli.report:report", "tables and figures from run folders"),
    "calibrate": ("unmask.cli.calibrate:calibrate", "RPD settings for a model, from its own evidence"),
    "diagnose": ("unmask.cli.diagnose:app", "is the evidence RPD rests on there, for this model?"),
    "models": ("unmask.cli.listing:models", "models by name, and whether they are on this machine"),
    "decoders": ("unmask.cli.listing:decoders", "decoders, their parameters and defaults"),
    "tasks": ("unmask.cli.listing:tasks", "tasks, what they ask and how they are scored"),
    "env": ("unmask.cli.env:env", "versions and hardware, to paste into an issue"),
}

# GNU OpenMP's threads spin for milliseconds while they wait for each other. As soon as anything else wants a core, a
# forward of the embedded model then takes ten times as long; this many turns cost nothing on an idle machine.
SPIN = ("GOMP_SPINCOUNT", "10000")
INTERRUPTED, BROKEN_PIPE, USER_ERROR = 130, 141, 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that lacks a character shows ?, it does not crash
            stream.reconfigure(errors="replace")
    if "OMP_WAIT_POLICY" not in os.environ:  # read when torch is loaded
        os.environ.setdefault(*SPIN)
    try:
        code = dispatch(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
        return code
    except UserError as error:
        return complain(str(error))
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader (head, less) has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except Exception as error:
        if type(error).__name__ != "OutOfMemoryError":  # torch's, which is not worth importing to name it
            raise
        return complain(f"out of device memory: try --dtype bfloat16, a shorter canvas or --device cpu ({error})")


def complain(sentence: str) -> int:
    print(f"error: {' '.join(sentence.split())}", file=sys.stderr)
    return USER_ERROR


def dispatch(argv: list[str]) -> int:
    if not argv or argv[0] in ("-h", "--help"):
        print(overview())
        return 0
    if argv[0] in ("-V", "--version"):
        print(f"unmask {__version__}")
        return 0
    verb, *rest = argv
    if verb not in VERBS:
        kind = "option" if verb.startswith("-") else "command"
        known = ("--help", "--version") if kind == "option" else VERBS
        raise UserError(f"{unknown(kind, verb, known)} (see unmask --help)")
    return run(load(VERBS[verb][0]), f"unmask {verb}", rest)


def overview() -> str:
    width = max(map(len, VERBS))
    verbs = "\n".join(f"  {name:{width}}  {line}" for name, (_, line) in VERBS.items())
    return (
        "Usage: unmask COMMAND ...\n\n"
        "Decode masked diffusion language models, reliably and in parallel.\n\n"
        f"Commands:\n{verbs}\n\n"
        "unmask COMMAND --help explains one. --version prints the version."
    )


def load(target: str) -> typer.Typer:
    """A verb's function as an app of its own; an app with several verbs as it is."""
    import typer

    module, name = target.split(":")
    found = getattr(importlib.import_module(module), name)
    if isinstance(found, typer.Typer):
        return found
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command()(found)
    return app


def run(app: typer.Typer, name: str, argv: list[str]) -> int:
    """Like typer's own main, but errors are ours to print: one sentence, no boxes, no traceback hooks."""
    import typer

    command: Any = typer.main.get_command(app)
    try:
        with command.make_context(name, argv) as context:
            command.invoke(context)
    except typer.Exit as finished:
        return finished.exit_code
    except typer.Abort:
        raise KeyboardInterrupt from None
    except Exception as error:
        if not hasattr(error, "format_message"):  # click's own errors have it, whichever click typer brings
            raise
        context = getattr(error, "ctx", None)
        path = context.command_path if context else name
        sentence = error.format_message().strip().rstrip(".")
        raise UserError(f"{sentence[:1].lower()}{sentence[1:]} (see {path} --help)") from None
    return 0
