"""Commands in which a value would be code, or would choose a program, are never accepted."""

from __future__ import annotations

import json
import shlex

import pytest

from tests.tools.authored.service import ANN, a_tool, service
from toolcaddie.core.errors import RequestError
from toolcaddie.tools.authored.checks.command import findings

X = {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]}


def refused(source: str) -> bool:
    return any(finding.severity == "refused" for finding in findings(source, X))


CODE = (
    "{{x}} a", "./run {{x}}", "/tmp/run {{x}}", "sh -c {{x}}", "bash -ec {{x}}", "dash {{x}}", "bash -o pipefail -c {{x}}",
    "zsh -c 'echo {{x}}'", "python3 -c {{x}}", "python3.12 -c {{x}}", "/usr/bin/python3 -m {{x}}", "python -W ignore {{x}}",
    "perl -ne {{x}} file", "perl -e{{x}}", "ruby -e {{x}}", "node --eval={{x}}", "node -r {{x}} a.js", "php -r {{x}}",
    "awk {{x}} file", "gawk -f {{x}}", "awk -F , '{print}' {{x}}", "sed s/a/{{x}}/ file", "sed -n -e p -e {{x}}", "lua {{x}}",
    "find /usr -exec {{x}} +", "xargs {{x}}", "env {{x}}", "env A=1 {{x}}", "env -S {{x}}", "nice -n 5 {{x}}", "nohup {{x}}",
    "timeout 5 {{x}}", "timeout 5 sh -c {{x}}", "nice nohup sh -c {{x}}", "busybox sh {{x}}", "ssh host {{x}}", "watch {{x}}",
    "parallel {{x}}", "tar -cf a --to-command={{x}}", "sort --compress-program={{x}} a", "split --filter {{x}} a",
    "git -c core.pager={{x}} log", "rsync -e {{x}} a b", "make {{x}}", "vim -c {{x}}", "sqlite3 a {{x}}", "ls -{{x}}",
    "ls --{{x}}", "sudo ls {{x}}", "su -c {{x}}", "rm -rf {{x}}", "chmod 777 {{x}}", "ls | wc {{x}}", "ls; wc {{x}}",
    "ls && wc {{x}}", "cat {{x}} > file", "cat {{x", "cat {{y}}", "cat {{_x}}", "cat 'open {{x}}", "", "[1, 2]", "[]",
)  # fmt: skip
SAFE = (
    "grep -c -- {{x}} /usr/share/dict/words", "wc -w {{x}}", "awk '{print $1}' {{x}}", "awk -F, '{print $1}' {{x}}",
    "sed s/a/b/ {{x}}", "timeout 5 wc -c {{x}}", "nice wc {{x}}", "date --date={{x}} +%s", "cal -m {{x}}",
    "echo --token {{x}} --color auto", "printf %s {{x}}", "python3 -c 'import sys; print(sys.argv[1])' {{x}}",
    "sh -c 'echo \"$1\"' sh {{x}}", "jq .name {{x}}", 'expr {{x}} + 1',
)  # fmt: skip


@pytest.mark.parametrize("source", CODE)
def test_a_value_that_would_be_code_or_choose_a_program_is_refused(source: str) -> None:
    assert refused(source)


@pytest.mark.parametrize("source", SAFE)
def test_a_value_that_is_only_read_is_accepted(source: str) -> None:
    assert not refused(source), findings(source, X)


@pytest.mark.parametrize("source", CODE[3:9])
def test_a_list_of_words_is_judged_as_the_same_text(source: str) -> None:
    assert refused(json.dumps(shlex.split(source)))


def test_operators_of_a_shell_are_plain_arguments_only_in_a_list_of_words() -> None:
    assert not refused('["expr", "{{x}}", "|", "0"]')


@pytest.mark.anyio
@pytest.mark.parametrize("source", ["sh -c {{text}}", "{{text}}", "rm -rf {{text}}"])
async def test_a_refused_command_is_never_stored(source: str, tmp_path) -> None:  # type: ignore[no-untyped-def]
    authorship = service(tmp_path)
    with pytest.raises(RequestError, match="never accepted") as error:
        await authorship.create(a_tool(source=source, of="command"), ANN)
    assert error.value.code == "refused"
    assert not await authorship.list("default")
