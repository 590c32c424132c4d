"""The operator's own patterns: which commands are denied, and which are the only ones allowed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator

from toolcaddie.core.errors import ConfigError
from toolcaddie.tools.commands.shell import SimpleCommand, UnreadableError, read
from toolcaddie.tools.commands.spellings import TooMuchTextError, commands_in


class Patterns:
    """Regular expressions for command lines. Raises `ConfigError` for one that is not valid.

    A line is refused if a denied pattern is found anywhere in it, or in one of its commands without quotes and wrappers. If there
    are allowed patterns, each command of a line must match one of them from its first character on. Denied patterns win.
    """

    def __init__(self, *, allowed: Iterable[str] = (), denied: Iterable[str] = ()) -> None:
        self._allowed = [_compiled("allowed_patterns", pattern) for pattern in allowed]
        self._denied = [_compiled("denied_patterns", pattern) for pattern in denied]

    def refusal(self, command: str) -> str:
        """Returns the reason why the patterns refuse a command line; empty: they do not."""
        return self._denial(command) or (self._unmatched(command) if self._allowed else "")

    def _denial(self, command: str) -> str:
        try:
            texts = (command, *(" ".join(words) for words in commands_in(command))) if self._denied else ()
        except TooMuchTextError as error:
            return f"the operator denies certain commands, and this line cannot be searched for them: {error}"
        for text in texts:
            for pattern in self._denied:
                if pattern.search(text):
                    return f"the operator denies commands that match {pattern.pattern!r}"
        return ""

    def _unmatched(self, command: str) -> str:
        try:
            texts = list(_texts(command))
        except UnreadableError as error:
            return f"the operator allows only certain commands, and this line cannot be understood: {error}"
        for text in texts:
            if not any(pattern.match(text) for pattern in self._allowed):
                patterns = ", ".join(repr(pattern.pattern) for pattern in self._allowed)
                return f"the operator allows only commands that match {patterns}; {text!r} does not"
        return ""


def _texts(command: str) -> Iterator[str]:
    """Yields each command of a line as text. Raises `UnreadableError`, also for variables that change what a program does."""
    for each in read(command).commands:
        if each.assignments:
            raise UnreadableError(f"it sets the variable {each.assignments[0][0]}")
        for redirection in each.redirections:
            if redirection.operator not in ("<", "<<<", ">&", "<&") and redirection.target.text != "/dev/null":
                raise UnreadableError(f"it writes to {redirection.target.text}")
        if each.words:
            yield _text(each)


def _text(command: SimpleCommand) -> str:
    if not command.words[0].is_plain:
        raise UnreadableError(f"its program {command.words[0].text} is known only when it runs")
    return " ".join(word.text if " " not in word.text else shlex.quote(word.text) for word in command.words)


def _compiled(setting: str, pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ConfigError(f"{setting}: {pattern!r} is no regular expression: {error}") from error
