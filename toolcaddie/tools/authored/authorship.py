"""The life of tools that bots write: written, reviewed, approved for exactly these bytes, changed, revoked, deleted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from toolcaddie.control.arguments import arguments_of
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import RequestError
from toolcaddie.core.tool import Tool, ToolCall, ToolResult
from toolcaddie.ports import Sandbox, Store
from toolcaddie.tools.authored import running
from toolcaddie.tools.authored.checks import findings_of
from toolcaddie.tools.authored.digests import check_digest
from toolcaddie.tools.authored.files import (
    Files,
    Meta,
    check_name,
    check_scope,
    checked,
    definition_of,
    files_of,
    meta_of,
)
from toolcaddie.tools.authored.folder import ToolFolder, new_id
from toolcaddie.tools.authored.records import Record, Records, StoredRecord, sealed
from toolcaddie.tools.authored.shelf import Entry, Shelf, new_record, tool_of, unknown
from toolcaddie.tools.authored.values import (
    Author,
    AuthoredLimits,
    AuthoredTool,
    BrokenFolder,
    Definition,
    Finding,
    Review,
    Status,
    Version,
)
from toolcaddie.util.log import Logger

log = Logger(__name__)


class Authorship:
    """Tools that bots write, and the decisions of people about them.

    `folder` has a folder for each tool. `store` has the decisions; a folder alone is never enough to run a tool. `sandbox` makes
    the sandbox of `dry_run`; it is not called before. `clock`: seconds since the epoch.

    A `key` is the id or the name of a tool. `by` is the person who decides; None: the operator, at the command line or in the
    program. Whoever calls must have checked that this person may decide: nothing here knows roles.

    All methods raise `RequestError`, whose `code` is `unknown_tool` for a tool that the tenant does not have, `changed` if it is
    not what the person saw or somebody else decides at this moment, `refused` for what is never accepted, `limit` where there is
    too much, `taken` for the name of another tool, and `broken` for a folder that cannot be read; and `StorageError` if the
    folder or the store cannot be read or written.
    """

    def __init__(
        self,
        folder: Path,
        store: Store,
        *,
        sandbox: Callable[[], Sandbox],
        clock: Callable[[], float] = time.time,
        limits: AuthoredLimits | None = None,
    ) -> None:
        self.folder = ToolFolder(folder)
        self.records = Records(store)
        self.limits = limits or AuthoredLimits()
        self._shelf = Shelf(self.folder, self.records, self.limits)
        self._sandbox = sandbox
        self._clock = clock

    # --- writing and reading ---------------------------------------------------------------------------------------------

    async def create(self, definition: Definition, author: Author) -> AuthoredTool:
        """Adds a tool, pending, to the tenant of its author. A command may be one text, which is split into words, or a JSON
        list of them."""
        definition = checked(definition, self.limits)
        _refuse(findings_of(definition))
        _refuse_missing(definition)
        now = self._clock()
        tool_id = new_id(now)
        meta = Meta(
            id=tool_id,
            tenant=author.principal.tenant,
            name=definition.name,
            description=definition.description,
            type=definition.type,
            scope=definition.scope,
            parameters=dict(definition.parameters),
            created_by=author.principal,
            created_at=now,
        )
        files = files_of(meta, definition.source)
        record = Record(
            id=tool_id,
            tenant=meta.tenant,
            name=meta.name,
            status="pending",
            digest=files.digest,
            author=author,
            created=now,
            changed=now,
        )
        # The record is first, so that a claim of its name is never taken for one that a crash left behind.
        await self.records.replace(record, expected=None)
        try:
            await self.records.claim(record.name, record)
            await self._check_limit(record)
            await asyncio.to_thread(self.folder.add, tool_id, files)
        except BaseException:
            await self.records.delete(record)
            raise
        await self._publish(record)
        log.info("tool_written", tool=record.name, id=tool_id, tenant=record.tenant, run_id=author.run_id)
        return tool_of(record, files, definition)

    async def list(
        self, tenant: str, *, status: Status | None = None, bot: str | None = None
    ) -> Sequence[AuthoredTool]:
        """Returns the tools of a tenant, the newest first. `bot`: only those that this bot wrote."""
        tools = [entry.tool for entry in await self._shelf.all(tenant)]
        wanted = [
            tool
            for tool in tools
            if status in (None, tool.status) and (bot is None or (tool.author and tool.author.principal.bot == bot))
        ]
        return sorted(wanted, key=lambda tool: (-tool.created, tool.id))

    async def broken(self, tenant: str | None = None) -> Sequence[BrokenFolder]:
        """Returns the folders that hold no usable tool. None: of all tenants, and those of which nobody knows the tenant."""
        return await self._shelf.broken(tenant)

    async def show(self, tenant: str, key: str) -> Review:
        """Returns a tool with everything that a person needs to decide about it."""
        entry = await self._shelf.one(tenant, key)
        definition = entry.tool.definition
        return Review(
            tool=entry.tool,
            findings=findings_of(definition),
            diff=await self._shelf.diff(entry),
            missing=running.missing(definition.type),
        )

    async def diff(self, tenant: str, key: str) -> str:
        """Returns the unified diff from the state that was approved last to the present one; empty: there is none."""
        return await self._shelf.diff(await self._shelf.one(tenant, key))

    async def version(self, tenant: str, key: str, number: int) -> AuthoredTool:
        """Returns the tool as it would be after a rollback to an approved version."""
        return (await self._earlier(tenant, key, number)).tool

    async def dry_run(self, tenant: str, key: str, arguments: Mapping[str, Any], *, digest: str = "") -> ToolResult:
        """Runs a tool of any status once in the sandbox, for its reader. `digest`: only if it is still the state with this
        digest. Refused in a sandbox that contains nothing."""
        entry = await self._shelf.one(tenant, key)
        if digest:
            check_digest(entry.tool, digest)
        sandbox = self._sandbox()
        if entry.tool.status != "approved" and not sandbox.holds:
            raise RequestError(
                f"the sandbox {sandbox.name!r} contains nothing, so {entry.tool.definition.name} may not be tried before it "
                'is approved; set type = "wall" in [sandbox]',
                code="refused",
            )
        definition = entry.tool.definition
        checked = await arguments_of(*_call(definition, arguments))
        if isinstance(checked, ToolResult):
            return checked
        return await running.run(definition, checked.values, sandbox=sandbox, limits=self.limits)

    # --- deciding --------------------------------------------------------------------------------------------------------

    async def approve(
        self, tenant: str, key: str, *, digest: str, by: Principal | None = None, note: str = ""
    ) -> AuthoredTool:
        """Approves exactly the state with this digest, the one of the `AuthoredTool` that the person read."""
        entry = await self._shelf.one(tenant, key)
        check_digest(entry.tool, digest)
        return await self._approve(entry, by, note)

    async def reject(self, tenant: str, key: str, *, by: Principal | None = None, note: str = "") -> AuthoredTool:
        """Rejects a pending tool. Its folder stays, and it can be approved later."""
        entry = await self._shelf.one(tenant, key)
        if entry.tool.status != "pending":
            raise RequestError(
                f"{entry.tool.definition.name} is {entry.tool.status}, so it cannot be rejected"
                + ("; revoke it" if entry.tool.status == "approved" else "")
            )
        return await self._decide(entry, "rejected", by, note)

    async def revoke(self, tenant: str, key: str, *, by: Principal | None = None, note: str = "") -> AuthoredTool:
        """Withdraws the approval. A call that has begun ends; the next one is refused."""
        entry = await self._shelf.one(tenant, key)
        if entry.stored is None or entry.stored.record.status != "approved":
            raise RequestError(f"{entry.tool.definition.name} is not approved, so there is nothing to revoke")
        return await self._decide(entry, "revoked", by, note)

    async def rollback(
        self, tenant: str, key: str, version: int, *, digest: str = "", by: Principal | None = None, note: str = ""
    ) -> AuthoredTool:
        """Puts the bytes of an approved version back, and approves them again. `digest`: only if it is still the one of the
        version."""
        earlier = await self._earlier(tenant, key, version)
        if digest:
            check_digest(earlier.tool, digest)
        _refuse(findings_of(earlier.tool.definition))
        assert earlier.stored is not None
        await self.records.claim(earlier.tool.definition.name, earlier.stored.record)
        await asyncio.to_thread(self.folder.replace, earlier.tool.id, earlier.files)
        return await self._approve(earlier, by, note or f"back to version {version}")

    async def rename(self, tenant: str, key: str, name: str, *, by: Principal | None = None) -> AuthoredTool:
        """Gives a tool another name. It is pending then."""
        check_name(name)
        entry = await self._shelf.one(tenant, key)
        await self.records.claim(name, entry.stored.record if entry.stored else new_record(entry))
        return await self._rewrite(entry, replace(meta_of(entry.files.meta), name=name), by, f"renamed to {name}")

    async def change_scope(self, tenant: str, key: str, scope: str, *, by: Principal | None = None) -> AuthoredTool:
        """Gives a tool another scope. It is pending then."""
        check_scope(scope)
        entry = await self._shelf.one(tenant, key)
        return await self._rewrite(
            entry, replace(meta_of(entry.files.meta), scope=scope), by, f"scope changed to {scope}"
        )

    async def delete(self, tenant: str, key: str, *, by: Principal | None = None) -> None:
        """Deletes a tool with its folder and all versions, also one whose folder is broken."""
        tool_id, stored = await self._shelf.deletable(tenant, key)
        if stored is not None:
            await self.records.delete(stored.record)
        await asyncio.to_thread(self.folder.delete, tool_id)
        await asyncio.to_thread(self.folder.note_change)
        log.info("tool_deleted", id=tool_id, tenant=tenant, by=None if by is None else by.id)

    async def repair(self) -> None:
        """Writes the sealed copies of decisions again where they are not those of the store, as after a crash."""
        key = await self.records.sealing_key()
        for stored in await self.records.list(None):
            copy = await asyncio.to_thread(self.folder.read_state, stored.record.id)
            if copy != sealed(stored.record, key):
                await self._publish(stored.record)

    # --- the parts of a decision -----------------------------------------------------------------------------------------

    async def _earlier(self, tenant: str, key: str, version: int) -> Entry:
        """Returns the tool with the bytes of an approved version."""
        entry = await self._shelf.one(tenant, key)
        known = {each.number: each for each in entry.tool.versions}
        if entry.stored is None or version not in known:
            numbers = ", ".join(map(str, known)) or "none"
            raise RequestError(f"{entry.tool.definition.name} has no version {version}; it has {numbers}")
        files = await asyncio.to_thread(self.folder.read_version, entry.tool.id, version)
        if files.digest != known[version].digest:
            raise RequestError(
                f"version {version} of {entry.tool.definition.name} is not what was approved: its bytes were changed",
                code="broken",
            )
        return Entry(
            tool=tool_of(entry.stored.record, files, definition_of(files, self.limits)),
            files=files,
            stored=entry.stored,
        )

    async def _approve(self, entry: Entry, by: Principal | None, note: str) -> AuthoredTool:
        definition = entry.tool.definition
        _refuse(findings_of(definition))
        _refuse_missing(definition)
        record = entry.stored.record if entry.stored else new_record(entry)
        if entry.stored is None:
            entry = Entry(tool=entry.tool, files=entry.files, stored=await self._added(record))
        await self.records.claim(definition.name, record)
        versions = await self._with_version(entry, record, by, note)
        approved = await self._decide(entry, "approved", by, note, versions=versions, name=definition.name)
        if record.name != definition.name:
            await self.records.release(record.name, record)
        return approved

    async def _added(self, record: Record) -> StoredRecord:
        """Adds the record of a tool whose folder was put there by hand."""
        await self.records.replace(record, expected=None)
        stored = await self.records.get(record.tenant, record.id)
        if stored is None:
            raise RequestError(f"{record.name} was deleted at this moment", code="changed")
        return stored

    async def _with_version(self, entry: Entry, record: Record, by: Principal | None, note: str) -> tuple[Version, ...]:
        """Keeps the bytes that are about to be approved, and returns all versions."""
        same = next((each for each in record.versions if each.digest == entry.files.digest), None)
        number = same.number if same else max((each.number for each in record.versions), default=0) + 1
        await asyncio.to_thread(self.folder.add_version, record.id, number, entry.files)
        approved = Version(number=number, digest=entry.files.digest, at=self._clock(), by=by, note=note)
        others = [each for each in record.versions if each.number != number]
        for dropped in others[: max(0, len(others) + 1 - self.limits.versions)]:
            others.remove(dropped)
            await asyncio.to_thread(self.folder.drop_version, record.id, dropped.number)
        return tuple(sorted([*others, approved], key=lambda each: each.number))

    async def _decide(
        self,
        entry: Entry,
        status: Status,
        by: Principal | None,
        note: str,
        **changes: Any,
    ) -> AuthoredTool:
        """Records a decision about exactly these bytes, and lets all processes know."""
        record = entry.stored.record if entry.stored else new_record(entry)
        decided = replace(
            record,
            status=status,
            digest=entry.files.digest,
            changed=self._clock(),
            decided_by=by,
            note=note,
            **changes,
        )
        await self.records.replace(decided, expected=entry.stored)
        await self._publish(decided)
        log.info(
            "tool_decided",
            tool=decided.name,
            id=decided.id,
            tenant=decided.tenant,
            status=status,
            digest=decided.digest,
            by=None if by is None else by.id,
        )
        return tool_of(decided, entry.files, entry.tool.definition)

    async def _rewrite(self, entry: Entry, meta: Meta, by: Principal | None, note: str) -> AuthoredTool:
        """Writes a tool with another name or scope. It is unloaded before its files change."""
        files = Files(meta=files_of(meta, "").meta, source=entry.files.source)
        definition = definition_of(files, self.limits)
        changed = Entry(tool=entry.tool, files=files, stored=entry.stored)
        before = entry.stored.record.name if entry.stored else ""
        await self._decide(changed, "pending", by, note, name=meta.name)
        await asyncio.to_thread(self.folder.replace, meta.id, files)
        await asyncio.to_thread(self.folder.note_change)
        stored = await self.records.get(entry.tool.tenant, meta.id)
        if stored is None:
            raise unknown(meta.name, [])
        if before and before != meta.name:
            await self.records.release(before, stored.record)
        return tool_of(stored.record, files, definition)

    async def _publish(self, record: Record) -> None:
        """Writes the sealed copy of a decision, and lets all processes know."""
        data = sealed(record, await self.records.sealing_key())
        await asyncio.to_thread(self.folder.write_state, record.id, data)
        await asyncio.to_thread(self.folder.note_change)

    async def _check_limit(self, record: Record) -> None:
        """Raises `RequestError` if the bot has too many tools, this one included. Two that are written at the same moment may
        both be refused, so that there are never too many."""
        assert record.author is not None
        bot, most = record.author.principal.bot, self.limits.tools_per_bot
        others = [stored.record.author for stored in await self.records.list(record.tenant)]
        number = sum(author is not None and author.principal.bot == bot for author in others)
        if number > most:
            raise RequestError(
                f"this bot has {most} tools already, whatever their status; a person must delete one first",
                code="limit",
            )


def _refuse(findings: Sequence[Finding]) -> None:
    """Raises `RequestError` if anything of it is never accepted."""
    refused = [each for each in findings if each.severity == "refused"]
    if refused:
        reasons = " ".join(f"Line {each.line}: {each.text}" if each.line else each.text for each in refused[:5])
        raise RequestError(f"this source is never accepted. {reasons}", param="source", code="refused")


def _refuse_missing(definition: Definition) -> None:
    if problem := running.missing(definition.type):
        raise RequestError(problem, param="type", code="refused")


def _call(definition: Definition, arguments: Mapping[str, Any]) -> tuple[ToolCall, Tool]:
    """Returns the call that a model would make with these arguments, and its tool."""
    text = msgspec.json.encode(arguments).decode()
    tool = Tool(name=definition.name, description=definition.description, input_schema=definition.parameters)
    return ToolCall(id="dry_run", name=definition.name, arguments=text), tool
