"""Programs of the model: they do not leave the interpreter, they are cheap, and they go on after a kill."""

from __future__ import annotations

import asyncio
import os
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from security.corpora import texts_of
from security.escapes import CANARY
from security.goals import Goal, none_of
from security.lookups import ASKED, LOG, LOOKUPS, expected_text, runtime_over
from toolcaddie import Runtime, tool
from toolcaddie.core.message import Message
from toolcaddie.core.presets import preset
from toolcaddie.core.schema import estimate_tokens
from toolcaddie.engine.engine import Programs
from toolcaddie.programs.named import monty
from toolcaddie.storage.database import Database
from toolcaddie.testing import ScriptedProvider, call, calls, say

OWN_ESCAPES = (
    "().__class__.__base__.__subclasses__()",
    "__import__('os').system('id')",
    "import os\nos.system('touch escaped')",
    "import subprocess\nsubprocess.run(['touch', 'escaped'])",
    "import socket\nsocket.create_connection(('127.0.0.1', 80))",
    "import ctypes\nctypes.CDLL(None).system(b'touch escaped')",
    "open('escaped', 'w').write('x')",
    "from pathlib import Path\nPath('escaped').write_text('x')",
    "from pathlib import Path\nprint(Path('canary').read_text())",
    f"import os\nprint(os.environ['{CANARY}'])",
    f"import os\nprint(os.getenv('{CANARY}'))",
    "print(open('/proc/self/environ').read())",
    "eval(\"__import__('os').listdir('.')\")",
    "exec('import sys; sys.modules')",
    "(lambda f: f.__globals__)(lambda: 0)",
    "f'{().__class__.__mro__}'",
    "'{0.__class__}'.format(1)",
    "def f(): yield\nf().gi_frame.f_back.f_globals",
    "import asyncio\nawait asyncio.create_subprocess_shell('touch escaped')",
    "import urllib.request\nurllib.request.urlopen('http://127.0.0.1/')",
    "import json\njson.codecs.builtins.open('canary').read()",
    "import sys\nsys.settrace(print)",
    "import pickle\npickle.loads(b'cos\\nsystem\\n(S\"id\"\\ntR.')",
    "x = []\nx.append(x)\nprint(x)",
    "while True: pass",
    "x = 'a' * 10**10",
    "[0] * 10**12",
    "9**9**9",
    "def f(): return f()\nf()",
)
"""One program for each way out that we know, in addition to those of other people."""
_RESULT = "x" * 7_200
"""A result of a lookup: 2,000 tokens, as the largest of `toolcaddie eval costs`."""
_RUNS = 31
_TRIES = 3
_EACH = 10
"""Number of runs that one killed process has put away."""


def attacked(corpora: Path | None, *, quick: bool) -> Sequence[Goal]:
    """Returns the goals of programs."""
    return [
        *_escapes(corpora),
        *asyncio.run(_tokens()),
        *_speed(quick),
        *_killed(20 if quick else 100),
    ]


# --- escapes ----------------------------------------------------------------------------------------------------------


def _escapes(corpora: Path | None) -> Sequence[Goal]:
    """Runs our own programs, and every line of `python_escape.txt` if it is there."""
    own = _escape_goal("programs of ours that left a trace on the host", OWN_ESCAPES)
    lines = texts_of(corpora, "python_escape.txt")
    if lines is None:
        return [own]
    return [own, _escape_goal("lines of python_escape.txt that left a trace on the host", lines)]


def _escape_goal(name: str, programs: Sequence[str]) -> Goal:
    with tempfile.TemporaryDirectory(prefix="security-") as folder:
        canary = Path(folder) / "canary"
        canary.write_text(secrets.token_hex(16))
        process = subprocess.run(
            [sys.executable, "-m", "security.escapes", str(canary)],
            input=msgspec.json.encode(programs),
            capture_output=True,
            env={**os.environ, CANARY: secrets.token_hex(16), "HOME": folder, "TMPDIR": folder},
            check=False,
        )
    traces = [msgspec.json.decode(line, type=list[str]) for line in process.stdout.splitlines()]
    if process.returncode or len(traces) != len(programs):
        reason = process.stderr.decode(errors="replace")[-500:]
        return Goal(name=name, figure=f"stopped after {len(traces)} of {len(programs)}: {reason}", goal="0", met=False)
    for program, left in zip(programs, traces, strict=True):
        if left:
            print(f"{', '.join(left)}: {program[:200]!r}")
    return none_of(name, sum(map(bool, traces)), len(programs))


# --- costs ------------------------------------------------------------------------------------------------------------


@tool(read_only=True)
async def look_up(number: int) -> str:
    """Looks a record up."""
    return f"{number} {_RESULT}"


_GATHERED = (
    "import asyncio\nfor text in await asyncio.gather(*[look_up(number=n) for n in range(20)]):\n    print(text[:20])"
)


async def _tokens() -> Sequence[Goal]:
    """Compares the tokens of all requests of a conversation of two messages, of which the first needs twenty lookups: in one
    program, as calls of one answer, and one by one."""
    gathered = await _tokens_of([call("run_program", {"code": _GATHERED}), say("done")])
    together = await _tokens_of([calls(*[("look_up", {"number": n}) for n in range(20)]), say("done")])
    in_turn = await _tokens_of([*(call("look_up", {"number": n}) for n in range(20)), say("done")])
    return [
        Goal(
            name=f"tokens of a conversation with 20 lookups in one program, divided by those of 20 calls {how}",
            figure=f"{gathered / tokens:.3f} ({gathered:,} of {tokens:,})",
            goal="at most 0.2",
            met=gathered <= 0.2 * tokens,
        )
        for how, tokens in (("of one answer", together), ("one after another", in_turn))
    ]


async def _tokens_of(script: Sequence[Any]) -> int:
    """Returns the tokens of all requests that a conversation sends to its model."""
    provider = ScriptedProvider([*script, say("you are welcome")])
    always = preset("default")
    always = replace(always, programs="always", limits=replace(always.limits, rounds=None))
    async with Runtime(provider=provider, sources=[look_up, "gym"], preset=always, programs="monty") as runtime:
        first = await runtime.run("look up the records 0 to 19")
        await runtime.run([*first.state.messages, Message(role="user", content="thank you")])
    return sum(estimate_tokens(msgspec.json.encode([request.tools, request.messages])) for request in provider.requests)


def _speed(quick: bool) -> Sequence[Goal]:
    """Measures runs with one program of 20 calls beside runs with the same 20 calls of one answer, up to `_TRIES` times until the
    goals are met, because a delay by the program repeats and a delay by the machine does not. With `quick`, which is for busy
    machines, a goal is five times as long."""
    goals: Sequence[Goal] = ()
    for _ in range(_TRIES):
        goals = asyncio.run(_times(5 if quick else 1))
        if all(goal.met for goal in goals):
            break
    return goals


async def _times(factor: int) -> Sequence[Goal]:
    direct = [calls(*[("look_up", {"number": n}) for n in range(20)]), say("done")]
    program = [call("run_program", {"code": _GATHERED}), say("done")]
    runs: dict[str, list[float]] = {"direct": [], "without": [], "with": []}
    interpreter = monty()
    runtimes = {
        name: Runtime(
            provider=ScriptedProvider((direct if name == "direct" else program) * (_RUNS + 2)),
            sources=[look_up],
            preset=replace(preset("default"), programs="always"),
            programs=Programs(interpreter=interpreter, check_types=name == "with"),
        )
        for name in runs
    }
    for number in range(_RUNS + 2):
        for name, runtime in runtimes.items():
            began = time.perf_counter()
            await runtime.run("look up the records 0 to 19")
            if number > 1:
                runs[name].append(time.perf_counter() - began)
    for runtime in runtimes.values():
        await runtime.close()
    return [
        _added(runs, "without", "without checking types", 5.0 * factor),
        _added(runs, "with", "with checked types", 60.0 * factor),
    ]


def _added(runs: Mapping[str, Sequence[float]], name: str, how: str, most: float) -> Goal:
    milliseconds = 1_000 * statistics.median(b - a for a, b in zip(runs["direct"], runs[name], strict=True))
    return Goal(
        name=f"what a program of 20 calls adds to a run with these 20 calls, {how}, p50",
        figure=f"{milliseconds:.1f} ms",
        goal=f"under {most:g} ms",
        met=milliseconds < most,
    )


# --- kills ------------------------------------------------------------------------------------------------------------


def _killed(times: int) -> Sequence[Goal]:
    """Lets processes put programs away in the middle of 20 calls, kills them, and lets this process resume the programs."""
    with tempfile.TemporaryDirectory(prefix="security-") as folder:
        url, log = f"sqlite:///{folder}/programs.sqlite", Path(folder) / "calls"
        log.touch()
        environment = {**os.environ, LOG: str(log)}
        for _ in range(times // _EACH):
            command = [sys.executable, "-m", "security.lookups", url, str(_EACH)]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)
            assert process.stdout is not None
            for line in process.stdout:
                if line == b"ready\n":
                    break
            process.kill()
            process.communicate()
        os.environ[LOG] = str(log)
        texts = asyncio.run(_resumed(url))
        made = log.read_text().splitlines()
    doubled = len(made) - len(set(made))
    missing = len(texts) * LOOKUPS - len(set(made))
    other = sum(text != expected_text(run_id) for run_id, text in texts.items())
    return [
        none_of(
            "programs put away, killed and resumed whose result differs from an undisturbed one", other, len(texts)
        ),
        none_of("calls of these programs that were made twice", doubled, len(made)),
        none_of("calls of these programs that were not made", max(0, missing), len(texts) * LOOKUPS),
    ]


async def _resumed(url: str) -> Mapping[str, str]:
    """Resumes all programs that wait, and returns what their models read, by run."""
    texts: dict[str, str] = {}
    async with Database(url, lease=1.0) as database, runtime_over(database) as runtime:
        for question in await runtime.approvals.list("default", status="open", limit=1_000):
            assert question.tool == ASKED
            await runtime.approvals.answer("default", question.id, approved=True)
            result = await runtime.resume(question.run_id)
            texts[question.run_id] = next(m.text for m in result.messages if m.role == "tool")
    return texts
