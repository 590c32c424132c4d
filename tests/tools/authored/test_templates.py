"""A value arrives as exactly one argument, byte for byte, or is refused with a reason."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from security.corpora import texts_of
from tests.tools.authored.service import Contained, a_tool
from toolcaddie.core.errors import RequestError
from toolcaddie.tools.authored import running
from toolcaddie.tools.authored.templates import fill, words_of
from toolcaddie.tools.authored.values import AuthoredLimits

CORPORA = Path(__file__).parents[4] / "shared" / "corpora"
SHOW = "import json, sys; print(json.dumps([word.encode('utf-8', 'surrogateescape').hex() for word in sys.argv[1:]]))"


def arrived(template: list[str], value: Any) -> list[bytes]:
    """The arguments that a real program receives from a filled template."""
    words = fill(words_of(json.dumps(template)), {"x": value})
    done = subprocess.run([sys.executable, "-c", SHOW, *words], capture_output=True, check=True)
    return [bytes.fromhex(word) for word in json.loads(done.stdout)]


VALUES = {
    "semicolon": "a; touch marker",
    "pipe": "a | touch marker",
    "background": "a & touch marker",
    "and": "a && touch marker",
    "substitution": "$(touch marker)",
    "backticks": "`touch marker`",
    "variable": "$HOME ${IFS}",
    "redirection": "a > marker < /etc/passwd",
    "newline": "a\ntouch marker\r\n",
    "single quotes": "a' 'touch marker",
    "double quotes": 'a" "touch marker',
    "backslashes": "a\\ b\\\\",
    "globs": "* ? [a-z] ~ {a,b}",
    "spaces": "  a  b\t",
    "empty": "",
    "a placeholder": "{{x}} {{y}}",
    "braces": "}}{{",
    "other letters": "é 日本 \U0001f600 \u202e \ufeff",
    "control characters": "".join(map(chr, range(1, 32))) + "\x7f",
    "comment": "# touch marker",
    "percent": "%0Aid %s %n",
}


@pytest.mark.proves("R002-92", "R002-108")
@pytest.mark.parametrize("name", VALUES)
def test_a_value_is_one_argument_or_a_part_of_one_and_no_byte_of_it_changes(name: str) -> None:
    value = VALUES[name].encode()
    assert arrived(["show", "a", "{{x}}", "b"], VALUES[name]) == [b"show", b"a", value, b"b"]
    assert arrived(["show", "--name=<{{x}}>"], VALUES[name]) == [b"show", b"--name=<" + value + b">"]
    assert arrived(["show", "{{x}}{{x}}"], VALUES[name]) == [b"show", value * 2]


@pytest.mark.parametrize(
    ("value", "text"), [(3, "3"), (1.5, "1.5"), (True, "true"), (["a b"], '["a b"]'), ({"a": 1}, '{"a": 1}')]
)
def test_a_value_that_is_no_text_arrives_as_json(value: Any, text: str) -> None:
    assert arrived(["show", "{{x}}"], value) == [b"show", text.encode()]


@pytest.mark.parametrize("value", ["-rf", "--output=/etc/passwd", "-", "--", -1])
def test_a_value_that_would_be_an_option_is_refused_unless_options_have_ended(value: Any) -> None:
    for word in ("{{x}}", "{{x}}.txt"):
        with pytest.raises(RequestError, match="option"):
            fill(("show", word), {"x": value})
    assert fill(("show", "--", "{{x}}"), {"x": value})[2] == str(value)
    assert fill(("show", "file-{{x}}"), {"x": value})[1] == f"file-{value}"


def test_two_values_in_one_word_make_no_option_together() -> None:
    with pytest.raises(RequestError, match="option"):
        fill(("show", "{{a}}{{b}}"), {"a": "", "b": "-rf"})


@pytest.mark.parametrize("program", ["find", "/usr/bin/find", "tar", "dd", "expr"])
def test_programs_that_read_options_everywhere_get_none_from_a_value(program: str) -> None:
    with pytest.raises(RequestError, match="option"):
        fill((program, "--", "{{x}}"), {"x": "-delete"})


@pytest.mark.parametrize(
    ("value", "reason"),
    [("a\0b", "NUL"), ("\ud800", "not text"), ("x" * 200_000, "bytes"), (None, "no value")],
)
def test_what_cannot_be_an_argument_is_refused_with_the_reason(value: Any, reason: str) -> None:
    with pytest.raises(RequestError, match=reason) as error:
        fill(("show", "{{x}}"), {"x": value})
    assert error.value.param == "x"


def test_a_placeholder_without_a_value_is_refused() -> None:
    with pytest.raises(RequestError, match="has no value"):
        fill(("show", "{{x}}", "{{y}}"), {"x": "a"})


def test_spaces_part_words_once_and_quotes_join_them() -> None:
    assert words_of("show 'a b' {{ x }} \"c\"") == ("show", "a b", "{{x}}", "c")
    assert words_of('["show", "a b", "{{ x }}"]') == ("show", "a b", "{{x}}")


@pytest.mark.anyio
async def test_every_value_of_the_corpus_arrives_through_a_sandbox_or_is_refused(tmp_path: Path) -> None:
    values = texts_of(CORPORA, "shell_injection.txt")
    if values is None:
        pytest.skip("shell_injection.txt is not beside the repository")
    box, limits = Contained(), AuthoredLimits()
    parameters = {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]}
    tool = a_tool(source=json.dumps([sys.executable, "-c", SHOW, "--", "{{x}}"]), of="command", parameters=parameters)
    for value in values[::40]:
        result = await running.run(tool, {"x": value}, sandbox=box, limits=limits)
        if result.error == "invalid_arguments":
            assert "NUL" in result.text or "option" in result.text
        else:
            assert json.loads(result.text) == [b"--".hex(), value.encode().hex()]
