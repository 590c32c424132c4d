"""Which command lines only read, so that they run unasked in a sandbox in which they can write nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolcaddie.tools.commands.reading import doubt
from toolcaddie.tools.commands.shell import UnreadableError, read

CORPUS = Path(__file__).parents[2].parent / "shared" / "corpora" / "safe_commands.txt"

READING = {
    "files": (
        "ls -la",
        "ls *.txt",
        "cat 'a b.txt' \"c.txt\"",
        "head -n 5 notes.txt | tail -1",
        "wc -l < notes.txt",
        "find . -name '*.py' -newer x -print0",
        r"find . -type f -exec grep -l TODO {} \;",
        "find . -name '*.py' -exec wc -l {} +",
        "find . -type f | xargs grep -n foo",
        "find . -print0 | xargs -0 -n 1 sha256sum",
        "grep -rn --include='*.py' 'def ' src | sort -u | uniq -c",
        "rg -n pattern src",
        "tree -L 2",
        "tar tf a.tar | head",
        "unzip -l a.zip",
        "gzip -dc a.gz | head -c 100",
        "xxd -l 32 a.bin",
        "diff <(sort a) <(sort b)",
        "/usr/bin/ls /bin",
    ),
    "text": (
        "sed -n '1,10p' a.txt",
        "sed 's/a/b/g; /x/d' a.txt",
        "sed -E -e 's|a/(b)|\\1|' -e '$p' a.txt",
        "awk '{print $1, $NF}' a.txt",
        "awk -F, '$3 > 5 && $2 != \"x\" {n++} END {print n}' a.csv",
        "sort -t, -k2,2n a.csv",
        "cut -d: -f1 a | tr a-z A-Z",
        "echo '5 / 3' | bc",
        "jq '.[] | select(.a == 1)' a.json",
        "printf '%s\\n' one two | column -t",
        'echo "a > b; rm c"',
        "echo a\\;b",
        "cat <<< 'some text'",
    ),
    "machine": (
        "uname -a",
        "df -h && free -m",
        "ps aux | grep '[s]sh'",
        "id -u",
        "date +%s",
        "env",
        "uptime; whoami",
        "nproc",
    ),
    "git": (
        "git status -sb",
        "git log --oneline -5 -- src",
        "git diff 'HEAD@{1}' -- a",
        "git --no-pager show HEAD:a.txt",
        "git -C sub log",
        "git branch -a",
        "git tag --list",
        "git stash list",
        "git config --get user.name",
        "git remote -v",
        "git grep -n foo",
        "git rev-parse HEAD",
    ),
    "shell": (
        "cd sub && ls",
        "if [ -f a ]; then cat a; else echo none; fi",
        'for f in *.txt; do wc -l "$f"; done',
        'while read -r line; do echo "$line"; done < a.txt',
        "[[ -d src && -f a ]] && echo yes || echo no",
        "(cd sub; ls) | wc -l",
        "{ ls; pwd; } 2>/dev/null",
        "! test -f a",
        "ls > /dev/null 2>&1",
        "ls nowhere 2>&1 | head",
        'echo $((1 + 2)) ${HOME} $? "$(pwd)" `id -u`',
        "LC_ALL=C sort a",
        "set -euo pipefail; ls",
        "time ls",
        "timeout 5 cat a",
        "command -v python3",
        "[[ $a =~ ^x ]]",
        "alias",
        "ls # rm -rf x",
        "ls \\\n  -l",
        "python3 --version",
        "docker --help",
    ),
    "programs that do not exist": ("nosuchprogram", "ls | nosuchprogram"),
}

NOT_READING = {
    "writing programs": (
        "rm a",
        "mv a b",
        "cp a b",
        "touch a",
        "mkdir d",
        "chmod +x a",
        "ln -s a b",
        "truncate -s 0 a",
        "dd of=a",
    ),
    "redirections": (
        "ls > a",
        "ls >> a",
        "ls >| a",
        "ls &> a",
        "ls 2> a",
        "> a",
        "ls > $X",
        "ls 1<> a",
        "echo x >& a",
        "ls >/dev/sda",
    ),
    "writing options": (
        "sort -o a a",
        "sort -ro a a",
        "sort --output=a a",
        "sort --outp a a",
        "sort --compress-program=x a",
        "uniq a b",
        "tree -o a",
        "shuf -o a b",
        "iconv -f a -o b c",
        "file -C -m a",
        "yq -i .a=1 b",
        "less -o log a",
        "find . -delete",
        "find . -fprint a",
        "find . -fls a",
        "tee a",
        "ls | tee -a a",
        "tar xf a.tar",
        "tar -tf a --to-command=x",
        "unzip a.zip",
        "gzip a",
        "git diff --output=a",
    ),
    "programs that run others": (
        r"find . -exec rm {} \;",
        "find . -ok ls ';'",
        "find . -execdir sh -c id ';'",
        "xargs rm",
        "ls | xargs sh -c",
        "ls | xargs find",
        "env rm a",
        "env LD_PRELOAD=x ls",
        "env -S 'rm a'",
        "timeout 5 rm a",
        "nice rm a",
        "command rm a",
        "rg --pre ./x foo",
        "fd -x rm",
        "man -P ./x ls",
        "bat --pager=./x a",
        "git -c core.pager=./x log",
        "git diff --ext-diff",
        "git grep -O./x foo",
        "git difftool -x ./x",
        "git difftool --extcmd=./x",
        "git --exec-path=. status",
        "sudo ls",
        "sh a.sh",
        "bash -c ls",
        "./ls",
        "./ls --help",
        "sub/ls --version",
        "sub/cat a",
        "python3 a.py",
        "python3 -c 'print(1)'",
        "perl -e 1",
        "make",
        "nohup ls",
        "eval ls",
        "exec ls",
        "source a",
        ". a",
        "trap ls EXIT",
        "alias ls=rm",
        "[[ a ]]; rm a",
        "systemctl stop a",
        "stty erase x",
        "export PATH=.",
    ),
    "programs of sed and awk": (
        "sed -i s/a/b/ c",
        "sed -n 'w a' b",
        "sed 's/a/b/w c' d",
        "sed 's/a/id/e' d",
        "sed '1e id' a",
        "sed -f a b",
        "sed --in-place s/a/b/ c",
        "awk '{print > \"a\"}' b",
        "awk 'BEGIN {system(\"id\")}'",
        "awk '{print | \"sh\"}' b",
        "awk 'BEGIN {\"id\" | getline x}'",
        "awk -f a b",
        "awk -i inplace 1 a",
        "awk '{print $1 >> \"a\"}' b",
    ),
    "git": (
        "git commit -m x",
        "git checkout a",
        "git reset --hard",
        "git clean -fdx",
        "git push",
        "git fetch",
        "git branch -D a",
        "git branch -f a b",
        "git tag v1",
        "git stash",
        "git stash pop",
        "git config user.name x",
        "git config --unset a.b",
        "git remote add a b",
        "git worktree add a",
        "git reflog expire --all",
        "git nosuchcommand",
    ),
    "network": ("curl http://a", "wget a", "ssh a", "ping a", "cat < /dev/tcp/1.2.3.4/80", "ip link set lo down"),
    "variables": (
        "PATH=. ls",
        "LD_PRELOAD=./x ls",
        "IFS=x; ls",
        "GIT_PAGER=./x git log",
        "for PATH in .; do ls; done",
        "read PATH",
    ),
    "hidden programs": ("$X", "$(echo rm) a", "r* a", "{rm,a}", "`cat a`", "~/ls", '"$X" a', "$'rm' a"),
    "hidden commands": (
        "ls $(rm a)",
        "ls `rm a`",
        'echo "$(rm a)"',
        'echo "`rm a`"',
        "diff <(rm a) b",
        "ls; rm a",
        "ls\nrm a",
        "ls && rm a",
        "ls || rm a",
        "ls | rm a",
        "(rm a)",
        "{ rm a; }",
        "if rm a; then ls; fi",
        "for i in $(rm a); do ls; done",
        "while rm a; do ls; done",
        "! rm a",
        "[[ -f $(rm a) ]]",
        "echo ${x:-$(rm a)}",
        "echo $(( $(rm a) ))",
        "echo $(echo $(rm a))",
        "ls #\nrm a",
        "ls \\\nx; rm a",
        "cat < $(rm a)",
        "LC_ALL=$(rm a) ls",
    ),
    "shapes that are not understood": (
        "ls &",
        "ls & rm a",
        "f() { rm a; }; f",
        "function f { rm a; }",
        "case a in a) rm a;; esac",
        "cat <<EOF\nEOF",
        "ls > >(rm a)",
        "((x=1))",
        "coproc rm a",
        "echo 'unclosed",
        'echo "unclosed',
        "echo $(unclosed",
        "ls \\",
        "echo ${x@P}",
        "echo ${!x}",
        "for ((;;)); do rm a; done",
        "for x do rm a; done",
        "",
        "   ",
        "# nothing",
        "X=1",
        "ls \0",
    ),
}


@pytest.mark.parametrize("command", [c for commands in READING.values() for c in commands])
def test_a_line_that_only_reads_raises_no_doubt(command: str) -> None:
    assert doubt(command) == ""


@pytest.mark.parametrize("command", [c for commands in NOT_READING.values() for c in commands])
def test_a_line_that_may_do_more_than_read_is_doubted_with_a_reason(command: str) -> None:
    assert doubt(command)


def test_words_are_read_as_a_shell_reads_them() -> None:
    command = read("""g'r'"e"\\p -e 'a b'"$HOME" \\; 2>&1 <in >"out file" """).commands[0]
    assert [(word.text, word.is_plain) for word in command.words] == [
        ("grep", True),
        ("-e", True),
        ("a b$HOME", False),
        (";", True),
    ]
    assert [(each.operator, each.target.text) for each in command.redirections] == [
        (">&", "1"),
        ("<", "in"),
        (">", "out file"),
    ]


def test_every_command_of_a_line_is_listed_also_those_inside_others() -> None:
    script = read("a | b && (c; d $(e `f`)) || if g; then h <(i); fi; for x in $(j); do k; done; ! { l; }")
    assert sorted(each.words[0].text for each in script.commands) == list("abcdefghijkl")
    assert script.variables == ("x",)


def test_substitutions_without_end_are_refused_quickly() -> None:
    for text in ("$(" * 50_000, "`" * 49_999, "((" * 50_000, "'" * 49_999, "{" * 50_000 + "," * 50_000):
        with pytest.raises(UnreadableError):
            read(f"echo {text}{'' if text[0] != '{' else '$('}")


def test_nearly_all_harmless_commands_of_other_people_run_unasked() -> None:
    if not CORPUS.exists():
        pytest.skip("the corpus of harmless commands is not here")
    lines = CORPUS.read_text().splitlines()
    doubted = [line for line in lines if doubt(line)]
    assert len(doubted) <= len(lines) // 100, doubted
