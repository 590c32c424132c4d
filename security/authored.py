"""Tools that bots write: hostile ones are shown to their reader and contained when they run anyway, values of commands stay
values, and no byte that a person has not approved runs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import random
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from security.corpora import texts_of
from security.escapes import CANARY
from security.goals import Goal, none_of
from security.programs import OWN_ESCAPES
from security.written import places_of
from toolcaddie.core.catalog import Catalog, View
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import ConfigError, RequestError
from toolcaddie.core.run import RunContext
from toolcaddie.parts import Parts
from toolcaddie.ports import Sandbox
from toolcaddie.sandbox.wall import Wall
from toolcaddie.storage.memory import MemoryStore
from toolcaddie.tools.authored import AuthoredSource, Authorship, authored, authorship, running
from toolcaddie.tools.authored.checks.python import findings
from toolcaddie.tools.authored.templates import fill
from toolcaddie.tools.authored.values import Author, AuthoredLimits, Definition

_OWN_SOURCES = (
    "import os\n_value = dict(os.environ)\n_value",
    "open({canary!r}).read()",
    "open({canary!r}, 'w').write('changed')",
    "import os\nos.unlink({canary!r})",
    "import os\nos.symlink('/etc/passwd', {folder!r} + '/link')",
    "import pathlib\n[p.read_bytes() for p in pathlib.Path('/proc').glob('[0-9]*/environ')]",
    "import os\nos.fork() or os.setsid() or os.execvp('sleep', ['sleep', '60'])",
    "import subprocess\nsubprocess.Popen(['sh', '-c', 'nohup sleep 60 & disown'], start_new_session=True)",
    "import socket\nsocket.create_connection(('127.0.0.1', 22), 1)",
    "import socket\nsocket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('203.0.113.9', 53))",
    "import socket\ns = socket.socket(socket.AF_UNIX); s.connect('\\0hidden')",
    "import socket\nsocket.socket(socket.AF_INET, socket.SOCK_RAW, 1)",
    "import ctypes\nctypes.CDLL(None).system(b'id > ' + {canary!r}.encode())",
    "import ctypes\nctypes.CDLL(None).ptrace(16, 1, 0, 0)",
    "import os\nos.kill(os.getppid(), 9)",
    "import os\n[os.kill(pid, 9) for pid in range(2, 400)]",
    "import os\nwhile True: os.fork()",
    "import os\nos.write(2, b'x' * 10**9)",
    "x = bytearray(10**10)",
    "import os\nopen('/work/a', 'wb').truncate(10**12)",
    "with open('/work/a', 'wb') as f:\n    while True: f.write(b'x' * 10**6)",
    "import os\n[os.open('/dev/null', 0) for _ in range(10**6)]",
    "import os\n[os.read(n, 100) for n in range(3, 20)]",
    "open('/proc/sys/kernel/core_pattern', 'w').write('|/bin/sh')",
    "import os\nos.mknod('/work/sda', 0o60600, os.makedev(8, 0))",
    "import os\nos.chroot('/')",
    "().__class__.__base__.__subclasses__()",
    "[c for c in ().__class__.__base__.__subclasses__() if c.__name__ == '_wrap_close'][0].__init__.__globals__['system']('id')",
)
"""Sources for each class of ways out. `{canary}` and `{folder}` are a file with a secret and its folder."""
_OWN_VALUES = (
    "; touch marker", "$(touch marker)", "`touch marker`", "| touch marker", "&& touch marker", "\ntouch marker\n",
    "' ; touch marker '", '" ; touch marker "', "${IFS}touch${IFS}marker", "> marker", "\\; touch marker", "--output=marker",
    "-o marker", "-", "", " ", "*", "~", "{{x}}", "{{y}}", "a\0b", "\x01\x1b\x7f", "é\u202e\U0001f600", "%0atouch marker",
    "$'\\n'touch marker", "!!", "#", "@marker",
)  # fmt: skip
_SHOW = "import json, sys; print(json.dumps([w.encode('utf-8', 'surrogateescape').hex() for w in sys.argv[1:]]))"
_TEMPLATES: Sequence[tuple[str, ...]] = (
    ("show", "{{x}}"),
    ("show", "--name={{x}}", "pre{{x}}post", "x{{x}}{{x}}", "--", "{{x}}", "last"),
)
_SCHEMA = {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]}
_AT_ONCE = 4
_PYTHON = os.path.realpath(sys.executable)
_QUICK_STEP = 24


def attacked(corpora: Path | None, *, quick: bool) -> Sequence[Goal]:
    """Returns the goals of tools that bots write."""
    try:
        sandbox: Sandbox = Wall()
    except ConfigError as error:
        return [*_shown(corpora), Goal(name="a sandbox that holds", figure=str(error), goal="there is one", met=False)]
    return [
        *_shown(corpora),
        *_contained(corpora, quick=quick),
        *asyncio.run(_values(corpora, sandbox, quick=quick)),
        *asyncio.run(_changed(50 if quick else 1_000)),
    ]


# --- what is shown ----------------------------------------------------------------------------------------------------


def _shown(corpora: Path | None) -> Iterator[Goal]:
    own = [*OWN_ESCAPES, *(source.format(canary="/c", folder="/") for source in _OWN_SOURCES)]
    yield _share("sources of ours that are shown to the reader", own, at_least=0.95)
    if (escapes := texts_of(corpora, "python_escape.txt")) is not None:
        yield _share("lines of python_escape.txt that are shown to the reader", escapes, at_least=0.95)
    if (benign := texts_of(corpora, "python_benign.txt")) is not None:
        yield _share("lines of python_benign.txt that are shown to the reader", benign, at_most=0.03)


def _share(name: str, sources: Sequence[str], *, at_least: float = 0.0, at_most: float = 1.0) -> Goal:
    number = sum(bool(findings(source)) for source in sources)
    share = number / len(sources)
    return Goal(
        name=name,
        figure=f"{number:,} of {len(sources):,} ({share:.1%})",
        goal=f"at least {at_least:.0%}" if at_least else f"at most {at_most:.0%}",
        met=at_least <= share <= at_most,
    )


# --- what gets out ----------------------------------------------------------------------------------------------------


def _contained(corpora: Path | None, *, quick: bool) -> Iterator[Goal]:
    """Runs every source as if it were approved."""
    yield from _run("sources of ours", [*OWN_ESCAPES, *_OWN_SOURCES][:: 4 if quick else 1])
    escapes = texts_of(corpora, "python_escape.txt")
    if escapes is not None:
        yield from _run("lines of python_escape.txt", escapes[:: _QUICK_STEP if quick else 1])


def _run(name: str, sources: Sequence[str]) -> Iterator[Goal]:
    with tempfile.TemporaryDirectory(prefix="security-") as folder, tempfile.TemporaryDirectory(prefix="own-") as own:
        canary = Path(folder) / "canary"
        canary.write_text(secrets.token_hex(16))
        placed = [
            _encodable(source.replace("{canary!r}", repr(str(canary))).replace("{folder!r}", repr(folder)))
            for source in sources
        ]
        process = subprocess.run(
            [sys.executable, "-m", "security.written", str(canary)],
            input=msgspec.json.encode(placed),
            capture_output=True,
            env={**os.environ, CANARY: secrets.token_hex(16), "HOME": folder, "TMPDIR": own},
            check=False,
        )
    lines = [msgspec.json.decode(line, type=list[str]) for line in process.stdout.splitlines()]
    if process.returncode or len(lines) != len(sources) + 1:
        reason = process.stderr.decode(errors="replace")[-500:]
        figure = f"stopped after {len(lines)} of {len(sources)}: {reason}"
        yield Goal(name=f"{name} that got out of the sandbox", figure=figure, goal="0", met=False)
        return
    *traces, changed = lines
    for source, left in zip(sources, traces, strict=True):
        if left:
            print(f"{', '.join(left)}: {source[:200]!r}")
    yield none_of(f"{name} that got out of the sandbox, approved and run", sum(map(bool, traces)), len(sources))
    if changed:
        print("changed:", *changed[:10])
    yield Goal(name=f"files of the host that {name} changed", figure=f"{len(changed):,}", goal="0", met=not changed)


def _encodable(text: str) -> str:
    """Returns a text without halves of surrogate pairs, with which no source is accepted."""
    return text.encode(errors="replace").decode()


# --- values of commands -----------------------------------------------------------------------------------------------


async def _values(corpora: Path | None, sandbox: Sandbox, *, quick: bool) -> Sequence[Goal]:
    goals = [await _arrivals("values of ours", _OWN_VALUES, sandbox)]
    values = texts_of(corpora, "shell_injection.txt")
    if values is not None:
        goals.append(await _arrivals("lines of shell_injection.txt", values[:: _QUICK_STEP if quick else 1], sandbox))
    await sandbox.close()
    return goals


async def _arrivals(name: str, values: Sequence[str], sandbox: Sandbox) -> Goal:
    """Fills every template with every value, and runs a program that shows its arguments, behind the wall and without one."""
    refused: list[str] = []
    wrong: list[str] = []
    limit, before = asyncio.Semaphore(_AT_ONCE), places_of("\n".join(values))
    with tempfile.TemporaryDirectory(prefix="security-") as folder:

        async def tried(template: Sequence[str], value: str) -> None:
            async with limit:
                outcome = await _arrival(template, value, sandbox, folder)
            if outcome is not None:
                (refused if outcome.startswith("refused") else wrong).append(f"{outcome}: {value[:100]!r}")

        await asyncio.gather(*(tried(template, value) for template in _TEMPLATES for value in values))
        if os.listdir(folder):
            wrong.append(f"files were made: {os.listdir(folder)}")
    wrong += [f"{place} was made" for place in places_of("\n".join(values)) - before]
    print(*wrong[:10], sep="\n", end="\n" if wrong else "")
    total = len(values) * len(_TEMPLATES)
    return Goal(
        name=f"{name} in {len(_TEMPLATES)} templates that neither arrived byte for byte nor were refused with a reason",
        figure=f"{len(wrong):,} of {total:,} ({len(refused):,} refused)",
        goal="0",
        met=not wrong and total > 0,
    )


async def _arrival(template: Sequence[str], value: str, sandbox: Sandbox, folder: str) -> str | None:
    """Returns the reason for which a value was refused or arrived wrong; None: it arrived."""
    expected = [word.replace("{{x}}", value).encode(errors="surrogatepass").hex() for word in template]
    words = [_PYTHON, "-I", "-S", "-c", _SHOW, *template]
    tool = Definition(name="show", description="Shows.", type="command", source=json.dumps(words), parameters=_SCHEMA)
    result = await running.run(tool, {"x": value}, sandbox=sandbox, limits=AuthoredLimits())
    if result.error == "invalid_arguments":
        return f"refused ({result.text})"
    if result.is_error or json.loads(result.text) != expected:
        return f"{result.text[:200]} in {template}"
    process = await asyncio.create_subprocess_exec(
        *fill(words, {"x": value}), cwd=folder, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    return None if json.loads(output) == expected else f"without the wall: {output[:200]!r} in {template}"


# --- changed bytes ----------------------------------------------------------------------------------------------------


async def _changed(times: int) -> Sequence[Goal]:
    """Changes single bytes of approved tools, and what else a person could do to the folder, and calls the tools."""
    logging.getLogger("toolcaddie.tools.authored").setLevel(logging.CRITICAL)  # every change is a line
    with tempfile.TemporaryDirectory(prefix="security-") as folder:
        store, sandbox = MemoryStore(), Wall()
        parts = Parts(store=store, sandbox=lambda: sandbox)
        people = authorship(parts=parts, store_path=folder)
        tool = await people.create(
            Definition(
                name="harmless",
                description="Returns a word.",
                type="python",
                source="def run():\n    return 'harmless'\n",
                parameters={"type": "object", "properties": {}},
            ),
            Author(principal=Principal(bot="helper")),
        )
        await people.approve(tool.tenant, tool.id, digest=tool.digest)
        source = authored(parts=parts, store_path=folder)
        assert isinstance(source, AuthoredSource)
        await source.open()
        ran = [await _ran_after(change, people, source, Path(folder) / tool.id) for change in _changes(times)]
        await source.close()
        await sandbox.close()
    return [none_of("changed bytes of an approved tool that ran or stayed approved", sum(ran), len(ran))]


def _changes(times: int) -> Iterator[Callable[[bytes], bytes]]:
    chance = random.Random(14)
    for _ in range(times):
        at, other = chance.random(), chance.randrange(1, 256)

        def flipped(content: bytes, at: float = at, other: int = other) -> bytes:
            position = int(at * len(content))
            return content[:position] + bytes([content[position] ^ other]) + content[position + 1 :]

        yield flipped


async def _ran_after(
    change: Callable[[bytes], bytes], people: Authorship, source: AuthoredSource, folder: Path
) -> bool:
    """Returns whether the tool could still be called, or still counts as approved, after a byte of it was changed."""
    known = next(each for each in source.tools() if each.name == "harmless")
    context = RunContext(
        run_id="run", principal=Principal(bot="helper"), view=View(catalog=Catalog.of(source.tools())), model=""
    )
    file = folder / random.Random(str(change(b"12345678"))).choice(["meta.json", "tool.py"])
    content = file.read_bytes()
    file.write_bytes(change(content))
    result = await source.call_tool(known, {}, context)
    approved = False
    with contextlib.suppress(RequestError):
        approved = (await people.show("default", folder.name)).tool.status == "approved"
    file.write_bytes(content)
    return approved or result.error != "revoked"
