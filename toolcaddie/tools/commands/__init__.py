"""Commands: the source `exec` with the tools `exec` and `process`.

`shell` reads a command line, `reading` (with `programs`, `git`, `scripts`) decides whether it only reads, `forbidden` (with
`spellings`) whether it is always refused, `plans` makes a plan of both. `running` runs it in the sandbox, for the tools of
`source` and others; `sessions` holds commands in the background. None of the judgements is a wall: the sandbox is.
"""

from toolcaddie.tools.commands.source import Commands, commands

__all__ = ["Commands", "commands"]
