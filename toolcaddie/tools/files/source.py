"""The source `files`: its settings, its three tools, and what it says of a call before it runs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from toolcaddie.core.assessment import NOTHING, Assessment
from toolcaddie.core.catalog import Category
from toolcaddie.core.control import Principal
from toolcaddie.core.numbers import Positive
from toolcaddie.core.run import RunContext
from toolcaddie.core.tool import ToolResult, failed
from toolcaddie.guards.paths import ChangedFileError, Folder, FolderPathError, MissingFileError, PathError
from toolcaddie.guards.secret_paths import SecretPaths
from toolcaddie.guards.workspaces import Per, Workspaces
from toolcaddie.sources.functions import FunctionSource, tool
from toolcaddie.sources.functions.threads import Threads
from toolcaddie.tools.files.diffs import unified
from toolcaddie.tools.files.edits import edited
from toolcaddie.tools.files.judging import changing, judged_write, printable
from toolcaddie.tools.files.lines import numbered
from toolcaddie.tools.files.sizes import check_size, encoded

MEGABYTE = 1_048_576

_MOST_NAMES = 200
_APPENDS = 5
"""The largest number of times that an append is repeated because another call changed the file meanwhile."""

FilePath = Annotated[str, Field(description="Path of the file, relative to the folder of the files: notes/today.md")]

_CATEGORY = Category(
    name="files",
    description="Read, write and edit files in the workspace.",
    keywords=("file", "folder", "directory", "workspace", "archivo", "carpeta", "arquivo", "pasta"),
)


def files(
    *,
    base_path: str = "workspace",
    max_file_size_bytes: Positive = MEGABYTE,
    denied_patterns: tuple[str, ...] = (),
    read_only: bool = False,
    folder_per: tuple[Per, ...] = (),
    untrusted: bool = True,
) -> FunctionSource:
    """Returns the file tools for the files below `base_path`, which is made if it is missing.

    `denied_patterns`: files that are refused in addition to those with secrets. `read_only`: only `file_read` is there.
    `folder_per`: every tenant, bot or person has a folder of its own below `base_path`. `untrusted`: what is read may be written
    by strangers; False only if nothing from outside ever gets into these files. Raises `ConfigError`.
    """
    spaces = Workspaces(Path(base_path), per=folder_per)
    Folder(spaces.base)  # so that a machine on which files cannot be opened safely is refused now
    tools = FileTools(spaces, most=max_file_size_bytes, denied=denied_patterns)
    reading = tool(tools.file_read, untrusted=untrusted)
    return FunctionSource(
        "files",
        [reading] if read_only else [reading, tools.file_write, tools.file_edit],
        [_CATEGORY],
        claims=("file_read", "file_write", "file_edit"),
        assess=tools.assess,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Folders:
    """The folder of one caller."""

    reading: Folder
    writing: Folder
    """The same, with more paths refused."""


@dataclass(slots=True)
class FileTools:
    """The three tools, as methods. They run in threads."""

    spaces: Workspaces
    most: int = field(kw_only=True)
    denied: tuple[str, ...] = field(kw_only=True, default=())
    _known: dict[Path, Folders] = field(init=False, default_factory=dict)
    _threads: Threads[Assessment] = field(init=False, default_factory=Threads)

    def folders(self, principal: Principal) -> Folders:
        """Returns the folder of a caller."""
        path = self.spaces.of(principal)
        known = self._known.get(path)
        if known is None:
            reading = Folder(path, refuse=SecretPaths.of(self.denied, base=path).reason)
            writing = Folder(path, refuse=SecretPaths.of(self.denied, base=path, writing=True).reason)
            known = self._known.setdefault(path, Folders(reading=reading, writing=writing))
        return known

    # --- tools ---------------------------------------------------------------------------------------------------------

    @tool(category="files", hints=("open", "show"), read_only=True, open_world=False)
    def file_read(
        self,
        context: RunContext,
        path: FilePath,
        offset: Annotated[int, Field(ge=1, description="Number of the first line to read")] = 1,
        limit: Annotated[int | None, Field(ge=1, description="Largest number of lines to read")] = None,
    ) -> ToolResult:
        """Read a text file of the workspace, with line numbers. Of a large file, a part is read: continue with `offset`. Of a
        folder, the names in it are listed."""
        folder = self.folders(context.principal).reading
        try:
            with folder.opened(path) as file:
                return ToolResult(content=numbered(file, offset=offset, limit=limit, most=self.most))
        except FolderPathError:
            return self._listed(folder, path)
        except PathError as error:
            return _failure(error)

    @tool(category="files", hints=("create", "save", "store", "append"), destructive=True, open_world=False)
    def file_write(self, context: RunContext, path: FilePath, content: str, append: bool = False) -> ToolResult:
        """Create a file of the workspace, replace its whole content, or append to it. Missing folders are made. To change a part
        of a file, use file_edit."""
        folder = self.folders(context.principal).writing
        try:
            data = self._encoded(content)
            size, real = self._appended(folder, path, data) if append else (len(data), folder.write(path, data))
        except PathError as error:
            return _failure(error)
        return ToolResult(
            content=f"{'Appended to' if append else 'Wrote'} {real}, which now has {size:,} byte{'s' * (size != 1)}."
        )

    @tool(category="files", hints=("change", "replace", "correct", "fix"), destructive=True, open_world=False)
    def file_edit(
        self,
        context: RunContext,
        path: FilePath,
        old_text: Annotated[
            str, Field(description="The text to replace, exactly as it is in the file, without line numbers")
        ],
        new_text: Annotated[str, Field(description="The text to put in its place")],
        replace_all: Annotated[
            bool, Field(description="Replace every occurrence; otherwise there must be exactly one")
        ] = False,
    ) -> ToolResult:
        """Replace a text in a file of the workspace. Read the file before."""
        folder = self.folders(context.principal).writing
        try:
            before = self._existing(folder, path)
            after, count = edited(path, before, old_text, new_text, replace_all=replace_all, most=self.most)
            real = folder.replace(path, after, before=before)
        except PathError as error:
            return _failure(error)
        return ToolResult(content=f"Edited {real}: {count} replacement{'s' * (count > 1)}.")

    # --- judgement -----------------------------------------------------------------------------------------------------

    async def assess(self, name: str, arguments: dict[str, Any], context: RunContext) -> Assessment:
        """Returns the difference that a call would make, or why it would fail: nobody is asked about a call that fails."""
        judges: dict[str, Callable[..., Assessment]] = {
            "file_read": self._judged_read,
            "file_write": self._judged_write,
            "file_edit": self._judged_edit,
        }
        return await self._threads.run(lambda: self._judged(judges[name], context.principal, arguments))

    def _judged(self, judge: Callable[..., Assessment], principal: Principal, arguments: dict[str, Any]) -> Assessment:
        try:
            return judge(self.folders(principal), **arguments)
        except PathError as error:
            return Assessment(refusal=_reason(error))

    def _judged_read(self, folders: Folders, path: str, **rest: Any) -> Assessment:
        with suppress(FolderPathError):  # its names are listed
            folders.reading.check(path)
        return NOTHING

    def _judged_write(self, folders: Folders, path: str, content: str, append: bool = False) -> Assessment:
        return judged_write(folders.writing, path, self._encoded(content), append=append, most=self.most)

    def _judged_edit(
        self, folders: Folders, path: str, old_text: str, new_text: str, replace_all: bool = False
    ) -> Assessment:
        before = self._existing(folders.writing, path)
        after, _ = edited(path, before, old_text, new_text, replace_all=replace_all, most=self.most)
        return changing(folders.writing, folders.writing.check(path), unified(path, before, after))

    # --- steps ---------------------------------------------------------------------------------------------------------

    def _listed(self, folder: Folder, path: str) -> ToolResult:
        try:
            names = folder.names(path, most=_MOST_NAMES)
        except PathError as error:
            return _failure(error)
        return ToolResult(content=printable(f"{path} is a folder: {', '.join(names) or 'it is empty'}"))

    def _existing(self, folder: Folder, path: str) -> bytes:
        before = folder.read(path, most=self.most)
        if before is None:
            raise PathError(f"there is no file {path} in the workspace to edit; create it with file_write")
        return before

    def _appended(self, folder: Folder, path: str, data: bytes) -> tuple[int, str]:
        """Appends to a file, which is made if it is missing. Returns its new size and real path."""
        for _ in range(_APPENDS):
            before = folder.read(path, most=self.most)
            after = self._limited((before or b"") + data)
            try:
                return len(after), folder.replace(path, after, before=before)
            except ChangedFileError:
                continue
        raise ChangedFileError(f"{path} is changed by others all the time, so nothing could be appended; try again")

    def _encoded(self, content: str) -> bytes:
        return self._limited(encoded(content, called="the content"))

    def _limited(self, data: bytes) -> bytes:
        check_size(len(data), most=self.most)
        return data


def _failure(error: PathError) -> ToolResult:
    """Returns the result of a call whose path is refused. That a file is missing is no content of one."""
    return failed(_reason(error), own_words=isinstance(error, MissingFileError))


def _reason(error: PathError) -> str:
    where = " in the workspace" if isinstance(error, MissingFileError) else ""
    return printable(f"{error}{where}")
