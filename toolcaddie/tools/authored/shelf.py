"""Finds tools: joins what is in the folder with what is in the store."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from toolcaddie.core.errors import RequestError
from toolcaddie.tools.authored.diffs import diff_of
from toolcaddie.tools.authored.files import Files, Meta, definition_of, meta_of
from toolcaddie.tools.authored.folder import ToolFolder
from toolcaddie.tools.authored.records import Record, Records, StoredRecord
from toolcaddie.tools.authored.values import AuthoredLimits, AuthoredTool, BrokenFolder, Definition
from toolcaddie.util.log import Logger
from toolcaddie.util.suggest import did_you_mean

log = Logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A tool as it is now, with what it was made of."""

    tool: AuthoredTool
    files: Files
    stored: StoredRecord | None
    """None: it has no record, because its folder was put there by hand."""


class Shelf:
    """Reads tools of one tenant at a time. A broken tool is skipped with a line in the log."""

    def __init__(self, folder: ToolFolder, records: Records, limits: AuthoredLimits) -> None:
        self._folder = folder
        self._records = records
        self._limits = limits

    async def all(self, tenant: str) -> Sequence[Entry]:
        """Returns the usable tools of a tenant, also those whose folder was put there by hand."""
        stored = {each.record.id: each for each in await self._records.list(tenant)}
        entry = await asyncio.to_thread(self._entries, tenant, stored)
        if all(each.stored is not None for each in entry):
            return entry
        known = {each.record.id for each in await self._records.list(None)}
        return [each for each in entry if each.stored is not None or each.tool.id not in known]

    async def one(self, tenant: str, key: str) -> Entry:
        """Returns the tool with this id or name. Raises `RequestError`."""
        tools = await self.all(tenant)
        for entry in tools:
            if key in (entry.tool.id, entry.tool.definition.name):
                return entry
        for stored in await self._records.list(tenant):
            if key in (stored.record.id, stored.record.name):
                problem = await asyncio.to_thread(self._problem, stored.record.id, tenant)
                raise RequestError(
                    f"{stored.record.name} is broken: {problem or 'it was changed just now'}", code="broken"
                )
        raise unknown(key, [entry.tool.definition.name for entry in tools])

    async def deletable(self, tenant: str, key: str) -> tuple[str, StoredRecord | None]:
        """Returns id and record of a tool, also of one that is broken. Raises `RequestError`."""
        for stored in await self._records.list(tenant):
            if key in (stored.record.id, stored.record.name):
                return stored.record.id, stored
        entry = await self.one(tenant, key)
        return entry.tool.id, entry.stored

    async def broken(self, tenant: str | None) -> Sequence[BrokenFolder]:
        """Returns what is in the folder and is no usable tool. None: of all tenants, and what belongs to none."""
        records = {each.record.id: each.record for each in await self._records.list(tenant)}
        return await asyncio.to_thread(self._broken, records, everything=tenant is None)

    async def diff(self, entry: Entry) -> str:
        """Returns the unified diff from the state that was approved last; empty: there is none."""
        last = entry.tool.approved_before
        if last is None or last.digest == entry.files.digest:
            return ""
        try:
            files = await asyncio.to_thread(self._folder.read_version, entry.tool.id, last.number)
            if files.digest != last.digest:
                raise RequestError("its bytes are not those that were approved", code="broken")
            before = definition_of(files, self._limits)
        except RequestError as error:
            return f"version {last.number} cannot be compared: {error}\n"
        return await asyncio.to_thread(diff_of, before, entry.tool.definition, last.number)

    def _entries(self, tenant: str, stored: Mapping[str, StoredRecord]) -> Sequence[Entry]:
        entry = (self._entry(tenant, tool_id, stored.get(tool_id)) for tool_id in self._folder.ids())
        return [each for each in entry if each is not None]

    def _entry(self, tenant: str, tool_id: str, stored: StoredRecord | None) -> Entry | None:
        try:
            files = self._folder.read(tool_id)
            meta = meta_of(files.meta)
            if stored is None and meta.tenant != tenant:
                return None
            definition = self._definition(files, meta, tool_id, tenant)
        except RequestError as error:
            if stored is not None:
                log.warning("tool_skipped", id=tool_id, tenant=tenant, problem=str(error))
            return None
        record = _record(meta, files) if stored is None else stored.record
        return Entry(tool=tool_of(record, files, definition), files=files, stored=stored)

    def _broken(self, records: Mapping[str, Record], *, everything: bool) -> Sequence[BrokenFolder]:
        ids = {**dict.fromkeys(records), **(dict.fromkeys(self._folder.ids()) if everything else {})}
        tenants = {tool_id: record.tenant for tool_id, record in records.items()}
        problems = {tool_id: self._problem(tool_id, tenants.get(tool_id)) for tool_id in ids}
        if everything:
            problems |= dict.fromkeys(self._folder.strangers(), "this is no folder of a tool")
        return [
            BrokenFolder(name=name, problem=f"{records[name].name}: {problem}" if name in records else problem)
            for name, problem in problems.items()
            if problem
        ]

    def _problem(self, tool_id: str, tenant: str | None) -> str:
        """Returns why a tool cannot be used; empty: it can."""
        try:
            files = self._folder.read(tool_id)
            meta = meta_of(files.meta)
            self._definition(files, meta, tool_id, meta.tenant if tenant is None else tenant)
        except RequestError as error:
            return str(error)
        return ""

    def _definition(self, files: Files, meta: Meta, tool_id: str, tenant: str) -> Definition:
        if meta.id != tool_id or meta.tenant != tenant:
            raise RequestError("its meta.json is of another tool or tenant", code="broken")
        return definition_of(files, self._limits)


def tool_of(record: Record, files: Files, definition: Definition) -> AuthoredTool:
    """Returns a tool with the decisions about these bytes."""
    return AuthoredTool(
        id=record.id,
        tenant=record.tenant,
        definition=definition,
        digest=files.digest,
        status=record.status_of(files.digest),
        author=record.author,
        created=record.created,
        changed=record.changed,
        decided_by=record.decided_by,
        note=record.note,
        versions=record.versions,
    )


def new_record(entry: Entry) -> Record:
    """Returns the record of a tool that has none."""
    return _record(meta_of(entry.files.meta), entry.files)


def unknown(key: str, names: Sequence[str]) -> RequestError:
    """Returns the error about a tool that the tenant does not have."""
    return RequestError(f"there is no tool {key[:80]!r}; {did_you_mean(key, names)}", code="unknown_tool")


def _record(meta: Meta, files: Files) -> Record:
    return Record(
        id=meta.id,
        tenant=meta.tenant,
        name=meta.name,
        status="pending",
        digest=files.digest,
        author=None,
        created=meta.created_at,
        changed=meta.created_at,
    )
