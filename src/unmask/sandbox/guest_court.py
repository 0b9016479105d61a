"""The trial: the candidate answers calls, the judge runs the tests. Standard library only.

The tests' names for the solution's functions are stand-ins here: calling one sends the arguments over, and the
result comes back as plain data. Comparing, counting and deciding happen on this side only.
"""

import builtins
import os
import sys
import time

from unmask.sandbox import guest_wire as wire

REASON = 300  # characters of one part of a reason


# --- the candidate's side -----------------------------------------------------------------------------------


def serve(questions, answers):
    """Execute the solution, then answer calls until the judge hangs up."""
    sys.argv = [""]
    sys.stdin = open(0)  # noqa: SIM115 (stands for the whole process: /dev/null)
    sys.stdout = open(1, "w", errors="replace")  # noqa: SIM115
    sys.stderr = open(2, "w", errors="replace", buffering=1)  # noqa: SIM115
    # A module like any other: dataclasses, pickle and typing look up where a class comes from.
    module = sys.modules["solution"] = type(sys)("solution")
    scope = module.__dict__
    scope["__builtins__"] = builtins
    kept = []

    def keep(value):
        kept.append(value)
        return len(kept) - 1

    def resolve(name):
        if isinstance(name, int):
            return kept[name]
        if name not in scope:
            raise NameError(f"name '{name}' is not defined")
        return scope[name]

    while True:
        try:
            data = wire.receive(questions)
        except wire.Closed:
            return
        question = {}
        try:
            question = wire.decode(data, resolve)
            answer = wire.encode({"value": act(question, scope, resolve)}, keep)
        except BaseException as error:
            answer = wire.encode({"raise": describe(error, question.get("code"))})
        try:
            sys.stdout.flush()
        except Exception:
            pass
        try:
            wire.send(answers, answer)
        except wire.Closed:
            return


def act(question, scope, resolve):
    kind, data = question["do"], question["data"]
    if kind == "load":
        exec(compile(question["code"], "program.py", "exec"), scope)
        return None
    target = resolve(question["of"])
    if kind == "call":
        return target(*data[0], **data[1])
    if kind == "get":
        return getattr(target, data)
    if kind == "set":
        return setattr(target, *data)
    if kind == "take":
        return target.take(data)
    return {"item": lambda: target[data], "iter": lambda: Steps(target), "next": lambda: next(target),
            "len": lambda: len(target), "text": lambda: str(target)}[kind]()  # fmt: skip


class Steps:
    """An iterator that is handed over some items at a time: it may have no end."""

    def __init__(self, target):
        self.left = iter(target)

    def take(self, count):
        return [item for _, item in zip(range(count), self.left)]  # noqa: B905 (the shorter one ends it)


def describe(error, code):
    """Type name, message, and where in the program: what a reader of samples.jsonl wants to know."""
    line, trace = getattr(error, "lineno", None), error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "program.py":
            line = trace.tb_lineno
        trace = trace.tb_next
    try:
        message = str(error)
    except BaseException:
        message = ""
    where = ""
    if code is not None and isinstance(line, int) and 0 < line <= len(code.splitlines()):
        where = f" (line {line}: {code.splitlines()[line - 1].strip()[:REASON]})"
    return [str(type(error).__name__)[:REASON], message[:REASON], where]


# --- the judge's side ---------------------------------------------------------------------------------------


class RemoteError(Exception):
    """An exception of the solution that is no built-in one. `args` are its type's name and message."""


class Failure(Exception):
    """The verdict: why the solution did not pass."""


class Channel:
    """`ended` is why there will be no further answer: a test that expects *some* exception must not swallow it."""

    def __init__(self, answers, questions):
        self.answers, self.questions, self.ended = answers, questions, None

    def ask(self, do, of=None, data=None, code=None):
        question = wire.encode({"do": do, "of": of, "data": data, "code": code}, name_of)
        try:
            answer = self.exchange(question)
        except (wire.Closed, Failure) as error:
            self.ended = error
            raise
        if "raise" not in answer:
            return answer["value"]
        kind, message, where = answer["raise"]
        raise rebuild(kind, message, where, may_stop=do == "next")

    def exchange(self, question):
        wire.send(self.questions, question)
        answer = wire.receive(self.answers)
        try:
            answer = wire.decode(answer, lambda name: Remote(self, name))
            if type(answer) is not dict:  # perhaps something of the candidate's: not even to be asked what it holds
                raise ValueError
            if "raise" in answer:
                kind, message, where = [str(part)[: 2 * REASON] for part in answer["raise"]]
                return {"raise": (kind, message, where)}
            return {"value": answer["value"]}
        except (ValueError, TypeError, LookupError):
            raise Failure("the program answered for itself") from None


class Remote:
    """Something of the solution's that stays where it is. It equals nothing but itself."""

    def __init__(self, channel, name):
        object.__setattr__(self, "_channel", channel)
        object.__setattr__(self, "_name", name)

    def __call__(self, *args, **kwargs):
        return self._channel.ask("call", self._name, (args, kwargs))

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self._channel.ask("get", self._name, name)

    def __setattr__(self, name, value):
        self._channel.ask("set", self._name, (name, value))

    def __getitem__(self, key):
        return self._channel.ask("item", self._name, key)

    def __iter__(self):
        steps, count = self._channel.ask("iter", self._name), 1
        while items := self._channel.ask("take", name_of(steps), count):
            yield from items
            count = min(2 * count, 1 << 12)

    def __next__(self):
        return self._channel.ask("next", self._name)

    def __len__(self):
        return self._channel.ask("len", self._name)

    def __str__(self):
        return self._channel.ask("text", self._name)


def name_of(value):
    if isinstance(value, Remote):
        return object.__getattribute__(value, "_name")
    raise TypeError(f"tests may pass plain data to the solution, not {type(value).__name__}")


def rebuild(kind: str, message: str, where: str, may_stop: bool = False) -> Exception:
    """The same built-in exception, so that a test may expect it; never one that ends the judge, or a test's loop."""
    cls = getattr(builtins, kind, None)
    if isinstance(cls, type) and issubclass(cls, Exception) and (may_stop or cls is not StopIteration):
        try:
            error: Exception = cls(message)
        except Exception:  # UnicodeDecodeError and its like take five arguments
            error = RemoteError(kind, message)
    else:
        error = RemoteError(kind, message)
    setattr(error, "of_solution", f"{kind}: {message}".rstrip(": ") + where)  # noqa: B010
    return error


def judge(job, report, answers, questions):
    """Never returns. The verdict is one message on `report`."""
    channel = Channel(answers, questions)
    try:
        trial = wire.decode(wire.receive(job))
        try:
            hear(channel, trial)
            verdict = {"passed": True, "reason": "passed"}
        except Failure as failure:
            verdict = {"passed": False, "reason": str(failure)}
    except wire.Closed:
        verdict = {"passed": False, "reason": cause_of_death()}
    except BaseException as error:
        verdict = {"passed": False, "reason": f"{type(error).__name__}: {error}"[:REASON]}
    wire.send(report, wire.encode(verdict))
    os._exit(0)


def hear(channel, trial):
    try:
        channel.ask("load", code=trial["code"])
    except Exception as error:
        raise_if_final(error)
        raise Failure(getattr(error, "of_solution", repr(error))) from None
    if not trial["tests"]:
        return
    scope: dict[str, object] = {"__name__": "tests"}
    exec(compile(trial["preamble"], "preamble.py", "exec"), scope)
    for name in trial["names"]:
        scope[name] = Remote(channel, name)
    try:
        exec(compile(trial["tests"], "program.py", "exec"), scope)
    except Exception as error:
        raise_if_final(error)
        kind, message, where = describe(error, trial["tests"])
        of_solution = getattr(error, "of_solution", None)
        raise Failure((of_solution or f"{kind}: {message}".rstrip(": ")) + where) from None
    if channel.ended is not None:
        raise channel.ended


def raise_if_final(error):
    if isinstance(error, wire.Closed | Failure):
        raise error


def cause_of_death():
    """What became of the candidate, whose end of the pipe is closed."""
    import signal

    for _ in range(50):
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid:
            code = os.waitstatus_to_exitcode(status)
            if code == -signal.SIGXCPU:
                return "used up its processor time"
            if code < 0:
                return f"killed by {signal.Signals(-code).name}"
            return "exited before the end"
        time.sleep(0.01)
    return "stopped answering before the end"
