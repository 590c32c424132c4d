"""Reads a command line as a shell would, without running anything, and lists every command in it.

It reads a strict part of the shell's language. Whatever it is not sure to read as every shell does, it refuses to read
(`UnreadableError`): here-documents, functions, `case`, background jobs, quoting with `$'...'`. It decides what a line is for,
never what it can do; that is the sandbox's task.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass


class UnreadableError(ValueError):
    """A command line that this reader does not understand, with the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """A word of a command line, without its quotes."""

    text: str
    """What the program receives; expansions stand in it as they were written, such as `*.txt` or `$HOME`."""
    is_plain: bool = True
    """False: the shell replaces a part of it before the program receives it."""
    is_split: bool = False
    """True: it has an expansion without quotes, which may become several words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Redirection:
    """A file or stream to which an output or input is connected."""

    operator: str
    target: Word


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleCommand:
    """A program with its arguments, the variables that are set for it, and its redirections. Any of them may be missing."""

    words: tuple[Word, ...] = ()
    assignments: tuple[tuple[str, Word], ...] = ()
    redirections: tuple[Redirection, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """All commands that a command line can run, in the order in which they end, also those in conditions, loops and
    substitutions."""

    commands: tuple[SimpleCommand, ...]
    variables: tuple[str, ...] = ()
    """Variables that its loops set."""


def read(text: str) -> Script:
    """Returns the commands of a command line. Raises `UnreadableError`."""
    reader = _Reader(text)
    reader.line(closing="")
    return Script(commands=tuple(reader.commands), variables=tuple(reader.variables))


def shell() -> str:
    """Returns the shell that runs command lines: bash, or sh where there is no bash."""
    return "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"


_BLANKS = " \t"
_ENDS_WORD = " \t\n;&|<>()"
_SEPARATORS = ("&&", "||", "|&", ";", "|", "\n")
_REDIRECTIONS = ("&>>", "<<<", "&>", ">>", ">&", "<&", ">|", "<>", ">", "<")
_SKIPPED = frozenset(("if", "then", "else", "elif", "fi", "while", "until", "do", "done", "{", "}", "!", "time"))
"""Words that introduce or end a command where a command begins. Whether they are balanced is left to the shell, which runs
nothing of an unbalanced line."""
_REFUSED = frozenset(("case", "esac", "select", "function", "coproc", "in"))
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_PARAMETER = re.compile(r"\$(?:[A-Za-z_][A-Za-z0-9_]*|[0-9?#$@*!-])")
_BRACED = re.compile(
    r"\$\{(?:#?[A-Za-z_][A-Za-z0-9_]*|[0-9?#@*])(?:(?::?[-+]|[%#^,]{1,2}|//?|:)[^{}$`\\\"'()@=\[\]]*)?\}"
)
_ARITHMETIC = re.compile(r"\$\(\((?:(?!\$\()[A-Za-z0-9_$+*/%<>!=&|^~?:, ()-])*\)\)")
_BRACES = re.compile(r"\{[^{}]*\}")
_DEEPEST = 8
"""Substitutions inside substitutions."""


class _Reader:
    """Reads one command line from left to right."""

    def __init__(self, text: str, depth: int = 0) -> None:
        if "\0" in text:
            raise UnreadableError("it contains a NUL character")
        if depth > _DEEPEST:
            raise UnreadableError("its substitutions are nested too deeply")
        self._text = text
        self._at = 0
        self._depth = depth
        self.commands: list[SimpleCommand] = []
        self.variables: list[str] = []

    def line(self, *, closing: str) -> None:
        """Reads commands up to the end, or up to and with an unmatched `closing`."""
        open_groups = 0
        while True:
            self._skip_blanks()
            if self._at == len(self._text):
                if closing:
                    raise UnreadableError(f"a {closing} is missing")
                return
            if self._take_one(_SEPARATORS):
                continue
            if self._peek("&"):
                if not self._peek("&>"):
                    raise UnreadableError("it starts a command in the background with &")
            elif self._peek("("):
                if self._peek("(("):
                    raise UnreadableError("it calculates with ((")
                self._at += 1
                open_groups += 1
                continue
            elif self._peek(")"):
                self._at += 1
                if open_groups == 0 and closing == ")":
                    return
                if open_groups == 0:
                    raise UnreadableError("it has a ) without a (")
                open_groups -= 1
                continue
            self._command()

    # --- commands -----------------------------------------------------------------------------------------------------

    def _command(self) -> None:
        """Reads one command with its redirections, up to a separator."""
        words: list[Word] = []
        assignments: list[tuple[str, Word]] = []
        redirections: list[Redirection] = []
        while not self._at_end_of_command():
            if (redirection := self._redirection()) is not None:
                redirections.append(redirection)
                continue
            start = self._at
            word = self._word()
            source = self._text[start : self._at]
            if not words and not assignments and not redirections and source in _SKIPPED | _REFUSED | {"for", "[["}:
                self._reserved(source)
                if source in ("for", "[["):
                    return
                continue
            assigned = _ASSIGNMENT.fullmatch(source) if not words else None
            if assigned is not None:
                value = Word(text=word.text.partition("=")[2], is_plain=word.is_plain)
                assignments.append((assigned[1], value))
            else:
                words.append(word)
        if words or assignments or redirections:
            self.commands.append(
                SimpleCommand(words=tuple(words), assignments=tuple(assignments), redirections=tuple(redirections))
            )

    def _at_end_of_command(self) -> bool:
        """Skips blanks. Returns whether the command ends here."""
        self._skip_blanks()
        if self._at == len(self._text) or self._peek("\n", ";", "|", ")"):
            return True
        if self._peek("(") and not self._peek("(("):
            before = re.split(r"[ \t\n]", self._text[max(0, self._at - 100) : self._at].rstrip(_BLANKS))[-1]
            if before and before[-1] not in ";&|(" and before not in _SKIPPED:
                raise UnreadableError("it has a ( after a word, as a function has")
            return True
        return self._peek("&") and not self._peek("&>")

    def _reserved(self, word: str) -> None:
        if word in _REFUSED:
            raise UnreadableError(f"it uses {word}")
        if word == "for":
            self._for()
        elif word == "[[":
            self._condition()

    def _for(self) -> None:
        """Reads the head of a loop: `NAME`, or `NAME in WORD...`."""
        self._skip_blanks()
        name = _NAME.match(self._text, self._at)
        if name is None:
            raise UnreadableError("its for loop has no variable")
        self._at = name.end()
        self.variables.append(name[0])
        self._skip_blanks()
        if self._text.startswith(("in ", "in\t", "in\n", "in;"), self._at):
            self._at += 2
        elif not self._peek(";", "\n"):
            raise UnreadableError("its for loop has neither words nor a ;")
        self._skip_blanks()
        while not self._peek(";", "\n") and self._at < len(self._text):
            self._word()
            self._skip_blanks()

    def _condition(self) -> None:
        """Reads `[[ ... ]]`, which is listed as a command without arguments."""
        while True:
            self._skip_blanks()
            if self._at == len(self._text):
                raise UnreadableError("a ]] is missing")
            if self._take_one(("&&", "||", "<", ">", "(", ")", "\n")):
                continue
            start = self._at
            self._word()
            if self._text[start : self._at] == "]]":
                self.commands.append(SimpleCommand(words=(Word(text="[["),)))
                return

    def _redirection(self) -> Redirection | None:
        """Reads a redirection, with the number of its stream; None: there is none here."""
        digits = re.compile(r"[0-9]*").match(self._text, self._at)
        assert digits is not None
        start, self._at = self._at, digits.end()
        if self._peek("<(", ">("):
            self._at = start
            return None
        if self._peek("<<") and not self._peek("<<<"):
            raise UnreadableError("it has a here-document")
        operator = self._take_one(_REDIRECTIONS)
        if not operator:
            self._at = start
            return None
        self._skip_blanks()
        return Redirection(operator=operator, target=self._word())

    # --- words --------------------------------------------------------------------------------------------------------

    def _word(self) -> Word:
        pieces: list[str] = []
        bare: list[str] = []
        """The unquoted characters, with a placeholder for each quoted one."""
        is_plain, is_split = True, False
        start = self._at
        while self._at < len(self._text):
            character = self._text[self._at]
            if self._peek("<(", ">("):
                self._process(pieces)
                is_plain = False
            elif character in _ENDS_WORD:
                break
            elif character in "'\"\\":
                quoted, plain = self._quoted()
                is_plain = is_plain and plain
                pieces.append(quoted)
                bare.append("x")
            elif character in "$`":
                expansion, plain = self._expansion()
                is_plain, is_split = is_plain and plain, is_split or not plain
                pieces.append(expansion)
            else:
                pieces.append(character)
                bare.append(character)
                self._at += 1
        if self._at == start:
            raise UnreadableError(f"there is no word at {self._text[start : start + 10]!r}")
        text = "".join(pieces)
        return Word(text=text, is_plain=is_plain and not _is_pattern("".join(bare)), is_split=is_split)

    def _quoted(self) -> tuple[str, bool]:
        """Reads a quoted piece. Returns it without its quotes, and whether it has no expansion."""
        match self._text[self._at]:
            case "\\":
                piece = self._text[self._at + 1 : self._at + 2]
                self._at += 2
                if not piece:
                    raise UnreadableError("it ends with a backslash")
                return ("" if piece == "\n" else piece), True
            case "'":
                end = self._text.find("'", self._at + 1)
                if end < 0:
                    raise UnreadableError("a ' is missing")
                piece, self._at = self._text[self._at + 1 : end], end + 1
                return piece, True
            case _:
                return self._double_quoted()

    def _double_quoted(self) -> tuple[str, bool]:
        pieces: list[str] = []
        is_plain = True
        self._at += 1
        while True:
            character = self._text[self._at : self._at + 1]
            following = self._text[self._at + 1 : self._at + 2]
            if not character:
                raise UnreadableError('a " is missing')
            if character == '"':
                self._at += 1
                return "".join(pieces), is_plain
            if character == "\\" and following and following in '$`"\\\n':
                pieces.append("" if following == "\n" else following)
                self._at += 2
            elif character == "`" or (character == "$" and following not in ("'", '"')):
                expansion, plain = self._expansion()
                is_plain = is_plain and plain
                pieces.append(expansion)
            else:
                pieces.append(character)
                self._at += 1

    def _expansion(self) -> tuple[str, bool]:
        """Reads what begins with `$` or a backtick. Returns it as it is written, and True if the shell leaves it unchanged."""
        start = self._at
        if self._text[start] == "`":
            self._backticks()
        elif match := (_ARITHMETIC.match(self._text, start) or _BRACED.match(self._text, start)):
            self._at = match.end()
        elif self._peek("$(("):
            raise UnreadableError("it calculates with $(( in a way that is not known")
        elif self._peek("$("):
            self._at += 2
            self._nested(closing=")")
        elif match := _PARAMETER.match(self._text, start):
            self._at = match.end()
        elif self._peek("${", "$'", '$"', "$["):
            raise UnreadableError(f"it has the expansion {self._text[start : start + 12]!r}")
        else:
            self._at += 1
            return "$", True
        return self._text[start : self._at], False

    def _backticks(self) -> None:
        end = self._at + 1
        while end < len(self._text) and self._text[end] != "`":
            end += 2 if self._text[end] == "\\" else 1
        if end >= len(self._text):
            raise UnreadableError("a ` is missing")
        inner = re.sub(r"\\([\\$`])", r"\1", self._text[self._at + 1 : end])
        self._at = end + 1
        self._add(_read_nested(inner, self._depth + 1))

    def _process(self, pieces: list[str]) -> None:
        """Reads `<(...)`, whose output the program reads as a file. `>(...)` is refused, because it outlives its command."""
        if self._peek(">("):
            raise UnreadableError("it has the process substitution >(")
        start = self._at
        self._at += 2
        self._nested(closing=")")
        pieces.append(self._text[start : self._at])

    def _nested(self, *, closing: str) -> None:
        inner = _Reader(self._text, self._depth + 1)
        inner._at = self._at
        inner.line(closing=closing)
        self._at = inner._at
        self._add(inner)

    def _add(self, inner: _Reader) -> None:
        self.commands += inner.commands
        self.variables += inner.variables

    # --- characters ---------------------------------------------------------------------------------------------------

    def _skip_blanks(self) -> None:
        while self._at < len(self._text):
            if self._text[self._at] in _BLANKS:
                self._at += 1
            elif self._peek("\\\n"):
                self._at += 2
            elif self._text[self._at] == "#":  # words are read whole, so this one begins a comment
                end = self._text.find("\n", self._at)
                self._at = len(self._text) if end < 0 else end
            else:
                return

    def _peek(self, *texts: str) -> bool:
        return self._text.startswith(texts, self._at)

    def _take_one(self, texts: Sequence[str]) -> str:
        """Moves past the first of these texts that stands here and returns it; empty: none does."""
        text = next((text for text in texts if self._peek(text)), "")
        self._at += len(text)
        return text


def _read_nested(text: str, depth: int) -> _Reader:
    reader = _Reader(text, depth)
    reader.line(closing="")
    return reader


def _is_pattern(bare: str) -> bool:
    """Returns whether the shell replaces a word, given its unquoted characters, by file names, several words or a home folder."""
    if bare in ("[", "[[", "{", "}", "{}", "!", "?"):
        return bare == "?"
    braces = any("," in each or ".." in each for each in _BRACES.findall(bare))
    return braces or bare.startswith("~") or any(character in bare for character in "*?[")
