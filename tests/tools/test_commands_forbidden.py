"""Commands that are always refused, however they are spelled, and the operator's own patterns."""

from __future__ import annotations

import time

import pytest

from toolcaddie.core.errors import ConfigError
from toolcaddie.tools.commands.forbidden import forbidden
from toolcaddie.tools.commands.patterns import Patterns
from toolcaddie.tools.commands.reading import doubt

REFUSED = {
    "options apart, together, long": (
        "rm -rf /",
        "rm -fr /",
        "rm -r -f /",
        "rm -f -R /",
        "rm -v -rf -- /",
        "rm --recursive --force /",
        "rm --rec /",
        "rm -rf --no-preserve-root /",
        "rm --no-preserve-root -r x",
        "rm / -rf",
        "rm -rf a / b",
    ),
    "names of everything": (
        "rm -rf /*",
        "rm -rf //",
        "rm -rf /.",
        "rm -rf /./*",
        "rm -rf /../",
        "rm -rf '/'*",
        "rm  -rf\t/",
    ),
    "quotes and escapes": (
        "r''m -rf /",
        'r"m" -rf "/"',
        r"\rm -rf /",
        r"r\m -r\f \/",
        "'rm' '-rf' '/'",
        r"$'\x72m' -rf /",
    ),
    "blanks": ("rm${IFS}-rf${IFS}/", "rm$IFS-rf$IFS/", "rm \\\n -rf /", "{rm,-rf,/}"),
    "variables": ("R=rm; $R -rf /", "X='rm -rf /'; $X", 'D=/ && rm -rf "${D}"'),
    "in front of it": (
        "sudo rm -rf /",
        "sudo -u root -n rm -rf /",
        "doas rm -rf /",
        "env A=b rm -rf /",
        "nohup rm -rf / &",
        "timeout -k 5 10 rm -rf /",
        "nice -n 5 rm -rf /",
        "busybox rm -rf /",
        "exec rm -rf /",
        "/usr/bin/rm -rf /",
        "xargs rm -rf /",
        r"find / -exec rm -rf / \;",
        "A=b rm -rf /",
        ">/dev/null 2>&1 rm -rf /",
    ),
    "places in a line": (
        "ls; rm -rf /",
        "ls && rm -rf /",
        "ls || rm -rf /",
        "ls | rm -rf /",
        "ls & rm -rf /",
        "ls\nrm -rf /",
        "(rm -rf /)",
        "{ rm -rf /; }",
        "if true; then rm -rf /; fi",
        "while true; do rm -rf /; done",
        "echo $(rm -rf /)",
        'echo "$(rm -rf /)"',
        "echo `rm -rf /`",
        "f() { rm -rf /; }; f",
    ),
    "in another interpreter": (
        "sh -c 'rm -rf /'",
        'bash -lc "cd x && rm -rf /"',
        "sudo sh -c 'rm -rf /'",
        "eval 'rm -rf /'",
        "echo 'rm -rf /' | sh",
        "ssh host 'rm -rf /'",
        "perl -e \"system('rm -rf /')\"",
        "python3 -c \"import os; os.system('rm -rf /')\"",
    ),
    "file systems": (
        "mkfs /dev/sda",
        "mkfs.ext4 -F /dev/sda1",
        "sudo mkfs.xfs x",
        "mke2fs x",
        "/sbin/mkfs -t ext4 x",
        "wipefs -a x",
    ),
    "devices": (
        "dd if=/dev/zero of=/dev/sda",
        "dd of=/dev/nvme0n1 bs=1M",
        "sudo dd of='/dev/sda' if=x",
        "cat x > /dev/sda",
        "cat x >/dev/sda1",
        "cat x >> /dev/hda",
        "echo x | sudo tee /dev/sdb",
        "cp x /dev/sda",
        "shred /dev/sda",
        "echo c > /proc/sysrq-trigger",
    ),
    "fork bombs": (
        ":(){ :|:& };:",
        ":() { : | : & } ; :",
        "bomb(){ bomb|bomb& };bomb",
        "function b { b | b & }; b",
        ":(){ :;:|:& };:",
        'perl -e "fork while fork"',
        "python3 -c 'import os\nwhile True: os.fork()'",
        "ruby -e 'loop { fork }'",
        "while true; do $0 & done",
    ),
    "permissions": (
        "chmod 777 /",
        "chmod -R 777 /",
        "chmod 0777 -R /*",
        "chmod a+rwx /",
        "chmod -R 755 /",
        "sudo chmod --recursive o+w /",
        "chown -R nobody /",
        "chattr -R +i /",
    ),
    "the machine": (
        "shutdown",
        "shutdown -h now",
        "sudo shutdown -r +5",
        "/sbin/reboot",
        "reboot -f",
        "halt -p",
        "poweroff",
        "init 0",
        "init 6",
        "telinit 6",
        "systemctl reboot",
        "systemctl start poweroff.target",
    ),
}

NOT_REFUSED = (
    "rm -rf build",
    "rm -rf ./",
    "rm -r /tmp/x",
    "rm -rf node_modules/*",
    "rm /",
    'echo "rm -rf /"',
    "grep -r 'rm -rf /' .",
    "git commit -m 'never rm -rf /'",
    "dd if=a of=b",
    "dd if=/dev/zero of=/dev/null count=1",
    "chmod 755 /",
    "chmod 777 a",
    "ls > /dev/null 2>/dev/stderr",
    "find / -name x",
    "git log --grep reboot",
    "init 3",
    "npm init 0",
    "systemctl status reboot.service",
    "man shutdown",
    "shutdown --help",
    "./shutdown.sh",
    "mkdir mkfs",
    "f() { g; }; f",
    "while true; do sleep 1; done",
)


@pytest.mark.proves("R002-44")
@pytest.mark.parametrize("command", [command for commands in REFUSED.values() for command in commands])
def test_a_command_that_destroys_the_machine_is_refused_in_every_spelling(command: str) -> None:
    assert forbidden(command)


@pytest.mark.parametrize("command", NOT_REFUSED)
def test_other_commands_are_not_refused(command: str) -> None:
    assert forbidden(command) == ""


@pytest.mark.proves("R002-45")
def test_denied_patterns_win_over_allowed_ones() -> None:
    patterns = Patterns(allowed=["git "], denied=["push"])
    assert patterns.refusal("git status") == ""
    assert "push" in patterns.refusal("git push")


@pytest.mark.parametrize(
    "command", ["docker ps", "sudo docker ps", "d''ocker ps", "ls; docker ps", "sh -c 'docker ps'"]
)
def test_a_denied_pattern_is_found_behind_quotes_and_wrappers(command: str) -> None:
    assert Patterns(denied=["^docker"]).refusal(command)
    assert Patterns(denied=["^podman"]).refusal(command) == ""


@pytest.mark.parametrize(
    "command",
    [
        "rm a",
        "ls; rm a",
        "ls | rm a",
        "ls $(rm a)",
        "ls\nrm a",
        "ls & rm a",
        "ls > a",
        "PATH=. ls",
        "$X",
        "ls 'unclosed",
        "f() { rm a; }; f; ls",
        "als",
    ],
)
@pytest.mark.proves("R002-45")
def test_every_command_of_a_line_must_match_an_allowed_pattern(command: str) -> None:
    assert Patterns(allowed=["ls", "wc "]).refusal(command)


@pytest.mark.parametrize("command", ["ls -la", "ls | wc -l", "ls 2>/dev/null && wc -l < a", "ls 'a b'"])
def test_lines_of_allowed_commands_run(command: str) -> None:
    assert Patterns(allowed=["ls", "wc "]).refusal(command) == ""


def test_a_pattern_that_is_no_regular_expression_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"denied_patterns: '\(' is no regular expression"):
        Patterns(denied=["("])


@pytest.mark.parametrize(
    "seed", ["a", "/", "( ", "{,", "sudo ", "fork ", "while1 ", "print ", "\\", "$((", "./", "sudo -x sudo "]
)
def test_no_line_takes_long_to_judge(seed: str) -> None:
    began = time.perf_counter()
    for start in ("", "rm -rf ", "sh ", "awk '", "echo {"):
        line = start + seed * (32_000 // len(seed))
        forbidden(line)
        doubt(line)
    assert time.perf_counter() - began < 5


HOSTILE_LINES = (
    "A=" + "x" * 16_000 + ";echo " + "$A" * 8_000,
    "A=" + "x" * 2_000 + ";sh -c '" + "$A " * 900 + "'",
    "A='$(echo $A $A)';" + "sh -c '$A$A$A'" * 100,
    "${IFS" * 6_000,
    "chmod " + "augo" * 8_000,
    "echo " + '"$(echo ' * 3_000,
    ";x" * 16_000,
    "env " * 8_000,
    "timeout 5 " * 3_200,
    "find " + "-exec ls ; " * 2_900,
    "a" * 32_000,
    "echo " + "[[ " * 10_000,
    "for x in a; do echo " + "$((1))" * 5_000 + "; done",
    "awk '" + "/[" * 16_000 + "'",
    "sed '" + "/" * 32_000 + "'",
)


@pytest.mark.parametrize("command", HOSTILE_LINES, ids=lambda command: command[:12])
def test_the_longest_lines_are_judged_in_a_moment(command: str) -> None:
    began = time.process_time()
    forbidden(command)
    doubt(command)
    for patterns in (Patterns(denied=["zzz"]), Patterns(allowed=["zzz"])):
        patterns.refusal(command)
    assert time.process_time() - began < 5


def test_a_line_whose_variables_stand_for_far_more_text_than_it_has_is_refused() -> None:
    command = "A=" + "x" * 500 + "; echo " + "$A" * 100
    assert "far more text" in forbidden(command)
    assert "far more text" in Patterns(denied=["zzz"]).refusal(command)
    assert forbidden("D=/var/log/app; ls $D; cat $D/a $D/b $D/c") == ""
