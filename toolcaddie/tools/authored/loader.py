"""Makes tools of the approved folders, again whenever something changes, by this process or another one."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from toolcaddie.core.errors import RequestError, StorageError
from toolcaddie.core.tool import Tool, ToolAnnotations
from toolcaddie.tools.authored.files import Files, Meta, definition_of, meta_of
from toolcaddie.tools.authored.folder import Signature, ToolFolder
from toolcaddie.tools.authored.records import unsealed
from toolcaddie.tools.authored.values import AuthoredLimits
from toolcaddie.util.log import Logger

log = Logger(__name__)

CATEGORY = "authored"
_LOOKS = 0.1
"""Seconds between two looks at the files of the loaded tools. Decisions are seen at once, and every call reads its files."""
_GRACE = 2.0
"""Seconds by which a call may take longer than its tool: the sandbox's own timeout comes first, and its result says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSet:
    """The approved tools of the folder at one moment."""

    change: Signature = ()
    tools: Mapping[str, Tool] = field(default_factory=dict)
    """Approved tools by id."""
    signatures: Mapping[str, Signature] = field(default_factory=dict)
    """Of all folders, so that only those that changed are read again."""
    revision: int = 0


class Loader:
    """Loads tools. `is_contained`: they run in a sandbox that holds, so that a call can change nothing."""

    def __init__(self, folder: ToolFolder, limits: AuthoredLimits, *, label: str, is_contained: bool) -> None:
        self._folder = folder
        self._limits = limits
        self._label = label
        self._annotations = (
            ToolAnnotations(read_only=True, destructive=False, idempotent=True, open_world=False)
            if is_contained
            else ToolAnnotations()
        )
        self._key = b""
        self._loaded = ToolSet()
        self._looked = 0.0
        self._loading = threading.Lock()

    def open(self, key: bytes) -> None:
        """Loads all tools. `key`: that of the seals."""
        self._key = key
        self._load()

    def close(self) -> None:
        """Forgets all tools."""
        with self._loading:
            self._key = b""
            self._loaded = ToolSet(revision=self._loaded.revision + 1)

    def current(self) -> ToolSet:
        """Returns the tools as they are now. Takes microseconds unless something changed."""
        if self._key and self._has_changed():
            self._load()
        return self._loaded

    def _has_changed(self) -> bool:
        loaded = self._loaded
        if self._folder.change() != loaded.change:
            return True
        now = time.monotonic()
        if now - self._looked < _LOOKS:
            return False
        self._looked = now
        return any(self._folder.signature(tool_id) != loaded.signatures[tool_id] for tool_id in loaded.tools)

    def _load(self) -> None:
        with self._loading:
            before = self._loaded
            change = self._folder.change()  # read first: what changes from here on is seen the next time
            try:
                signatures = {tool_id: self._folder.signature(tool_id) for tool_id in self._folder.ids()}
            except StorageError as error:
                log.error("authored_tools_unloaded", error=str(error))
                signatures = {}
            tools: dict[str, Tool] = {}
            for tool_id, signature in signatures.items():
                same = before.signatures.get(tool_id) == signature
                tool = before.tools.get(tool_id) if same else self._tool(tool_id)
                if tool is not None:
                    tools[tool_id] = tool
            changed = list(tools.values()) != list(before.tools.values())
            self._loaded = ToolSet(
                change=change, tools=tools, signatures=signatures, revision=before.revision + (1 if changed else 0)
            )

    def _tool(self, tool_id: str) -> Tool | None:
        """Returns the tool of a folder; None: a person has not approved exactly these bytes."""
        state = unsealed(self._folder.read_state(tool_id), tool_id, self._key)
        if state is None or state.status != "approved":
            return None
        try:
            files = self._folder.read(tool_id)
            if files.digest != state.digest:
                log.warning("tool_changed_after_approval", id=tool_id, approved=state.digest, now=files.digest)
                return None
            return self._tool_of(meta_of(files.meta), files)
        except RequestError as error:
            log.warning("tool_skipped", id=tool_id, problem=str(error))
            return None

    def _tool_of(self, meta: Meta, files: Files) -> Tool:
        definition = definition_of(files, self._limits)
        return Tool(
            name=definition.name,
            description=definition.description,
            input_schema=definition.parameters,
            category=CATEGORY,
            source=self._label,
            annotations=self._annotations,
            scope=definition.scope,
            creator=None if meta.created_by is None else meta.created_by.bot,
            tenant=meta.tenant,
            timeout=self._limits.seconds + _GRACE,
            untrusted=True,
            original=meta.id,
            backing=files.digest,
        )
