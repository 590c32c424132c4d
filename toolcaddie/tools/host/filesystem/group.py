"""The tools `read_file`, `write_file` and `list_directory`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field

from toolcaddie.core.assessment import NOTHING, Assessment
from toolcaddie.core.catalog import Category
from toolcaddie.core.run import RunContext
from toolcaddie.core.states import BackEnd
from toolcaddie.core.tool import ToolResult, failed
from toolcaddie.guards.paths import MissingFileError, PathError, read_up_to
from toolcaddie.sources.functions import FunctionSource, tool
from toolcaddie.sources.functions.threads import Threads
from toolcaddie.tools.files.judging import judged_write, printable
from toolcaddie.tools.files.sizes import check_size, encoded
from toolcaddie.tools.host.filesystem.roots import Roots
from toolcaddie.tools.host.filesystem.settings import FilesystemSettings
from toolcaddie.tools.host.groups import Group

_MOST_ENTRIES = 1_000

AbsolutePath = Annotated[str, Field(min_length=1, max_length=4_000, description="Absolute path")]


class FilesystemTools:
    """The three tools, as methods. They run in threads."""

    def __init__(self, settings: FilesystemSettings) -> None:
        self._roots = Roots(settings)
        self._most = settings.max_file_size_bytes
        self._threads: Threads[Assessment] = Threads()

    @tool(category="filesystem", hints=("cat", "show", "open"), read_only=True, open_world=False, untrusted=True)
    def read_file(self, path: AbsolutePath) -> ToolResult:
        """Read a text file of this machine."""
        try:
            root, place = self._roots.of(path)
            with root.reading.opened(place) as file:
                root.check_public(file)
                data = read_up_to(file.descriptor, self._most + 1)
        except PathError as error:
            return _failure(error)
        if b"\0" in data:
            return failed(f"{path} is not text but a binary file")
        text = data[: self._most].decode(errors="replace")
        rest = f"\n[only the first {self._most:,} bytes are shown]" if len(data) > self._most else ""
        return ToolResult(content=text + rest if data else "[the file is empty]")

    @tool(category="filesystem", hints=("create", "save"), destructive=True, open_world=False)
    def write_file(self, path: AbsolutePath, content: str) -> ToolResult:
        """Create a file of this machine, or replace its whole content. Missing folders are made."""
        try:
            data = self._encoded(content)
            folder, place = self._roots.writable(path)
            real = folder.write(place, data)
        except PathError as error:
            return _failure(error)
        written = printable(str(folder.folder / real))
        return ToolResult(
            content=f"Wrote {len(data):,} bytes to {written}.", structured={"path": written, "bytes_written": len(data)}
        )

    @tool(category="filesystem", hints=("ls", "dir", "folder"), read_only=True, open_world=False, untrusted=True)
    def list_directory(self, path: AbsolutePath) -> ToolResult:
        """List the names in a folder of this machine, with the size of each file."""
        try:
            root, place = self._roots.of(path)
            entries, is_whole = root.reading.entries(place, most=_MOST_ENTRIES)
        except PathError as error:
            return _failure(error)
        rows = [{"name": printable(each.name), "is_dir": each.is_dir, "size": each.size} for each in entries]
        lines = [f"{row['name']}/" if row["is_dir"] else f"{row['name']}  {row['size']} bytes" for row in rows]
        if not is_whole:
            lines.append(f"[the folder has more than {_MOST_ENTRIES:,} names; others are not shown]")
        return ToolResult(
            content="\n".join(lines) or "[the folder is empty]", structured={"entries": rows, "complete": is_whole}
        )

    # --- judgement -----------------------------------------------------------------------------------------------------

    async def assess(self, name: str, arguments: dict[str, Any], context: RunContext) -> Assessment:
        """Returns the difference that a call would make, or why it would fail: nobody is asked about a call that fails."""
        if name != "write_file":
            return NOTHING
        return await self._threads.run(lambda: self._judged(**arguments))

    def _judged(self, path: str, content: str) -> Assessment:
        try:
            folder, place = self._roots.writable(path)
            return judged_write(folder, place, self._encoded(content), most=self._most)
        except PathError as error:
            return Assessment(refusal=printable(str(error)))

    async def back_ends(self) -> Sequence[BackEnd]:
        """Returns the system call that opens files safely."""
        problem = self._roots.problem
        return [
            BackEnd(
                name="files (openat2)",
                present=not problem,
                detail=problem or "paths are opened so that none leads out of its root",
                remedy="use Linux 5.6 or later, without a filter of openat2" if problem else "",
            )
        ]

    def _encoded(self, content: str) -> bytes:
        data = encoded(content, called="the content")
        check_size(len(data), most=self._most)
        return data


def filesystem_group(settings: FilesystemSettings) -> Group:
    """Returns the group. Raises `ConfigError` for roots that cannot be used."""
    tools = FilesystemTools(settings)
    functions = [tools.read_file, tools.write_file, tools.list_directory]
    category = Category(
        name="filesystem",
        description="Files of this machine.",
        keywords=("file", "folder", "directory", "config", "log"),
    )
    names = ("read_file", "write_file", "list_directory")
    source = FunctionSource("host-filesystem", functions, [category], claims=names, assess=tools.assess)
    return Group(name="filesystem", source=source, back_ends=tools.back_ends)


def _failure(error: PathError) -> ToolResult:
    """Returns the result of a call whose path is refused. That a file is missing is no content of one."""
    return failed(printable(str(error)), own_words=isinstance(error, MissingFileError))
