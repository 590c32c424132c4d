"""The life of tools that bots write: written, reviewed, approved for exactly these bytes, changed, revoked, deleted."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from toolcaddie.core.control import Principal
from toolcaddie.core.tool import ToolResult
from toolcaddie.ports import Sandbox, Store
from toolcaddie.tools.authored.values import (
    Author,
    AuthoredLimits,
    AuthoredTool,
    BrokenFolder,
    Definition,
    Review,
    Status,
)


class Authorship:
    """Tools that bots write, and the decisions of people about them.

    `folder` has a folder for each tool. `store` has the decisions; a folder alone is never enough to run a tool. `sandbox` makes
    the sandbox of `dry_run`; it is not called before. `clock`: seconds since the epoch.

    A `key` is the id or the name of a tool. `by` is the person who decides; None: the operator, at the command line or in the
    program. Whoever calls must have checked that this person may decide: nothing here knows roles. The person who talked to the
    bot may decide too.

    All methods raise `RequestError` (code `unknown_tool` for a tool that the tenant does not have, `changed` if it is not what
    the person saw or somebody else decided at this moment, `refused` for what is never accepted, `limit` where there are too many,
    `taken` for a name of another tool), and `StorageError` if the folder or the store cannot be read or written.
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
        raise NotImplementedError

    async def create(self, definition: Definition, author: Author) -> AuthoredTool:
        """Adds a tool, pending, to the tenant of its author. A command's source may also be one text, which is split into words."""
        raise NotImplementedError

    async def list(
        self, tenant: str, *, status: Status | None = None, bot: str | None = None, type: str | None = None
    ) -> Sequence[AuthoredTool]:
        """Returns the tools of a tenant, the newest first. `bot`: only those that this bot wrote."""
        raise NotImplementedError

    async def broken(self) -> Sequence[BrokenFolder]:
        """Returns the folders that hold no usable tool, of all tenants."""
        raise NotImplementedError

    async def show(self, tenant: str, key: str) -> Review:
        """Returns a tool with everything that a person needs to decide about it."""
        raise NotImplementedError

    async def diff(self, tenant: str, key: str) -> str:
        """Returns the unified diff from the state that was approved last to the present one; empty: there is none."""
        raise NotImplementedError

    async def approve(
        self, tenant: str, key: str, *, digest: str, by: Principal | None = None, note: str = ""
    ) -> AuthoredTool:
        """Approves exactly the state with this digest, the one of the `AuthoredTool` that the person read."""
        raise NotImplementedError

    async def reject(self, tenant: str, key: str, *, by: Principal | None = None, note: str = "") -> AuthoredTool:
        """Rejects a pending tool. Its folder stays, and it can be approved later."""
        raise NotImplementedError

    async def revoke(self, tenant: str, key: str, *, by: Principal | None = None, note: str = "") -> AuthoredTool:
        """Withdraws the approval. A call that has begun ends; the next one is refused."""
        raise NotImplementedError

    async def rollback(
        self, tenant: str, key: str, version: int, *, by: Principal | None = None, note: str = ""
    ) -> AuthoredTool:
        """Puts the bytes of an approved version back, and approves them again."""
        raise NotImplementedError

    async def rename(self, tenant: str, key: str, name: str, *, by: Principal | None = None) -> AuthoredTool:
        """Gives a tool another name. It is pending then."""
        raise NotImplementedError

    async def change_scope(self, tenant: str, key: str, scope: str, *, by: Principal | None = None) -> AuthoredTool:
        """Gives a tool another scope. It is pending then."""
        raise NotImplementedError

    async def delete(self, tenant: str, key: str, *, by: Principal | None = None) -> None:
        """Deletes a tool with its folder and all versions."""
        raise NotImplementedError

    async def dry_run(self, tenant: str, key: str, arguments: Mapping[str, Any], *, digest: str = "") -> ToolResult:
        """Runs a tool of any status once in the sandbox, for its reader. `digest`: only if it is still the state with this digest."""
        raise NotImplementedError
