"""Findings in commands: placeholders where a value would be code or choose a program, and programs that a reader should know."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from toolcaddie.core.errors import RequestError
from toolcaddie.tools.authored.checks.programs import (
    CODE_OPTIONS,
    INTERPRETERS,
    NETWORK,
    POWER,
    STARTERS,
    STARTING_OPTIONS,
    WRITERS,
    name_of,
)
from toolcaddie.tools.authored.templates import END_OF_OPTIONS, PLACEHOLDER, placeholders, words_of
from toolcaddie.tools.authored.values import Finding

_SHELL_TEXT = ("$(", "${", "`", "$((")


def findings(source: str, parameters: Mapping[str, object]) -> Sequence[Finding]:
    """Returns what a reader should look at. `parameters`: the JSON Schema of the arguments."""
    try:
        words = words_of(source)
    except RequestError as error:
        return [_refused(f"This is no command: {error}.")]
    return [
        *_of_program(words),
        *_of_code(words),
        *_of_options(words),
        *_of_texts(words),
        *_of_names(words, parameters),
    ]


def _of_program(words: Sequence[str]) -> Iterator[Finding]:
    program = name_of(words[0])
    if PLACEHOLDER.search(words[0]):
        yield _refused("The program is chosen by a placeholder.")
    elif "/" in words[0] and not words[0].startswith(("/usr/", "/bin/", "/sbin/")):
        yield _refused(f"{words[0]} is no program of the system; a tool has no other files.")
    if program in POWER:
        yield _refused(f"{program} acts on the machine itself; no tool needs it.")
    elif program in WRITERS:
        yield _warning(f"{program} deletes or overwrites files; a tool sees an empty folder only.")
    elif program in NETWORK:
        yield _warning(f"{program} needs a network; a tool has none.")
    elif program in INTERPRETERS:
        yield _warning(f"{program} runs code, which stands in its arguments: read it as a program.")


def _of_code(words: Sequence[str]) -> Iterator[Finding]:
    """Yields a finding for each placeholder whose value would be read as code or as the name of a program."""
    program, rest = name_of(words[0]), words[1:]
    if program in STARTERS:
        yield from _of_starter(program, rest)
        return
    options = CODE_OPTIONS.get(program)
    if options is None:
        return
    literal = False
    for position, word in enumerate(rest):
        before = rest[position - 1] if position else ""
        is_code = _takes_code(before, options) or (word.startswith("-") and word != END_OF_OPTIONS)
        if PLACEHOLDER.search(word) and (is_code or not literal):
            yield _refused(f"The value of {_first(word)} would be code of {program}, or choose the file with its code.")
        elif not PLACEHOLDER.search(word) and (
            not word.startswith("-") and (position == 0 or is_code or _plain(rest, position))
        ):
            literal = True


def _takes_code(word: str, options: Sequence[str]) -> bool:
    """Returns whether the word after this option is code: `-c`, `--eval`, and `-ec`, which is two options in one word."""
    if word.startswith("--"):
        return word in options
    letters = {option[1:] for option in options if not option.startswith("--") and len(option) == len("-c")}
    return word in options or (word.startswith("-") and word[-1:] in letters)


def _plain(rest: Sequence[str], position: int) -> bool:
    """Returns whether every word before this one is an option with its value in the same word, so that this one is the code."""
    return all(word.startswith("-") and ("=" in word or len(word) > len("-F")) for word in rest[:position])


def _of_starter(program: str, rest: Sequence[str]) -> Iterator[Finding]:
    """Yields findings for a program that starts another one."""
    inner = _inner(program, rest)
    if inner is not None:
        yield from _of_program(inner)
        yield from _of_code(inner)
    elif placeholders(rest):
        text = f"{program} starts another program, and the value of {_first(' '.join(rest))} could choose it or be its code."
        yield _refused(text)


def _inner(program: str, rest: Sequence[str]) -> Sequence[str] | None:
    """Returns the command that another program starts, if that is plain to see; None: it is not."""
    skipped = STARTERS[program]
    if skipped is None or len(rest) <= skipped:
        return None
    first = rest[: skipped + 1]
    if any(word.startswith("-") or "=" in word or PLACEHOLDER.search(word) for word in first):
        return None
    return rest[skipped:]


def _of_options(words: Sequence[str]) -> Iterator[Finding]:
    """Yields a finding for a placeholder in an option, whatever program it is, that by its name starts a program."""
    for position, word in enumerate(words[1:], start=1):
        match = PLACEHOLDER.search(word)
        if match is None:
            continue
        option = word[: match.start()] or (words[position - 1] if position > 1 else "")
        if STARTING_OPTIONS.search(option):
            yield _refused(
                f"The value of {_first(word)} goes to {option.rstrip('=')}, an option that starts a program."
            )
        if word.startswith("-") and match.start() <= len("--"):
            yield _refused(f"The value of {_first(word)} would choose the option itself.")


def _of_texts(words: Sequence[str]) -> Iterator[Finding]:
    for word in words[1:]:
        if word.startswith(_SHELL_TEXT) or word in ("*", "~"):
            yield _warning(f"{word[:60]!r} is passed on as it stands: no shell replaces it.")


def _of_names(words: Sequence[str], parameters: Mapping[str, object]) -> Iterator[Finding]:
    """Yields a finding for each placeholder without a parameter, and for each parameter that is not used."""
    properties = parameters.get("properties")
    known = properties if isinstance(properties, Mapping) else {}
    required = parameters.get("required")
    names = placeholders(words)
    for name in names:
        if name.startswith("_"):
            yield _refused(f"{{{{{name}}}}} begins with '_'; such arguments are never passed on.")
        elif name not in known:
            yield _refused(f"{{{{{name}}}}} is no parameter of the schema.")
        elif not (isinstance(required, Sequence) and name in required) and "default" not in (known[name] or {}):
            yield _warning(f"The parameter {name} is not required; a call without it is refused.")
    for name in known:
        if name not in names:
            yield _warning(f"The parameter {name} is not used by the command.")


def _first(word: str) -> str:
    match = PLACEHOLDER.search(word)
    return "" if match is None else match[0]


def _refused(text: str) -> Finding:
    return Finding(severity="refused", line=1, text=text)


def _warning(text: str) -> Finding:
    return Finding(severity="warning", line=1, text=text)
