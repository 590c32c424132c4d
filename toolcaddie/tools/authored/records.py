"""What people decided about tools, in the store: one document for each tool, and one for each name.

Every change is a compare-and-set, so that of two people who decide at the same moment one is told. The folder of tools has a
sealed copy of each decision, so that a process learns of it without asking the store; a seal is made with a key that is only in
the store.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
from msgspec import Struct

from toolcaddie.core.control import Principal
from toolcaddie.core.errors import RequestError, StorageError
from toolcaddie.ports import Store
from toolcaddie.tools.authored.values import Author, Status, Version

_TOOLS = "authored-tool"
_NAMES = "authored-name"
_KEYS = "authored-key"
_KEY = "seal"
_PAGE = 200


class Record(Struct, frozen=True, kw_only=True):
    """The decisions about a tool."""

    id: str
    tenant: str
    name: str
    """The name that the tool holds; no other tool can have it."""
    status: Status
    digest: str
    """The bytes that the last decision was about. A tool with other bytes is pending."""
    author: Author | None
    created: float
    changed: float
    decided_by: Principal | None = None
    note: str = ""
    versions: tuple[Version, ...] = ()

    def status_of(self, digest: str) -> Status:
        """Returns the status of a tool with these bytes."""
        return self.status if digest == self.digest else "pending"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRecord:
    """A record, and its document as it was read."""

    record: Record
    document: bytes


class SealedState(Struct, frozen=True, kw_only=True):
    """A copy of a decision outside of the store."""

    id: str
    status: Status
    digest: str
    changed: float
    note: str = ""
    seal: str = ""
    """HMAC of id, status and digest."""


class Records:
    """Reads and changes the documents. Raises `StorageError` for documents that cannot be read."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._sealing: bytes = b""

    async def get(self, tenant: str, tool_id: str) -> StoredRecord | None:
        """Returns the record of a tool; None: there is none."""
        document = await self._store.get(_TOOLS, _key(tenant, tool_id))
        return None if document is None else _stored(document)

    async def list(self, tenant: str | None) -> Sequence[StoredRecord]:
        """Returns all records of a tenant; None: of all tenants."""
        records: list[StoredRecord] = []
        cursor: str | None = None
        while True:
            prefix = "" if tenant is None else _key(tenant, "")
            page = await self._store.scan(_TOOLS, prefix=prefix, cursor=cursor, limit=_PAGE)
            records += [_stored(document.value) for document in page.documents]
            cursor = page.cursor
            if cursor is None:
                return records

    async def replace(self, record: Record, *, expected: StoredRecord | None) -> Record:
        """Writes a record. Raises `RequestError` (code `changed`) if it is not the expected one any more; None: there is none."""
        written = await self._store.compare_and_set(
            _TOOLS,
            _key(record.tenant, record.id),
            msgspec.json.encode(record),
            expected=None if expected is None else expected.document,
        )
        if not written:
            raise RequestError(
                f"somebody else decided about {record.name} at this moment; look at it again", code="changed"
            )
        return record

    async def delete(self, record: Record) -> None:
        """Deletes a record and gives its name free."""
        await self._store.delete(_TOOLS, _key(record.tenant, record.id))
        await self.release(record.name, record)

    async def claim(self, name: str, holder: Record) -> None:
        """Takes a name for a tool. Raises `RequestError` (code `taken`) if another tool has it, of whatever tenant, because the
        names of a catalog are those of all tenants."""
        value = _holder(holder)
        current = await self._store.get(_NAMES, name)
        if current == value:
            return
        if current is not None:
            tenant, tool_id = msgspec.json.decode(current, type=tuple[str, str])
            if await self.get(tenant, tool_id) is not None:
                raise _taken(name)
        if not await self._store.compare_and_set(_NAMES, name, value, expected=current):
            raise _taken(name)

    async def release(self, name: str, holder: Record) -> None:
        """Gives a name free, if this tool has it."""
        if await self._store.get(_NAMES, name) == _holder(holder):
            await self._store.delete(_NAMES, name)

    async def sealing_key(self) -> bytes:
        """Returns the key of all seals, which is made at the first use."""
        if not self._sealing:
            made = secrets.token_bytes(32)
            if await self._store.compare_and_set(_KEYS, _KEY, made, expected=None):
                self._sealing = made
            else:
                self._sealing = await self._store.get(_KEYS, _KEY) or b""
        return self._sealing


def sealed(record: Record, key: bytes) -> bytes:
    """Returns the sealed copy of a decision."""
    copy = SealedState(
        id=record.id,
        status=record.status,
        digest=record.digest,
        changed=record.changed,
        note=record.note,
        seal=_seal(record.id, record.status, record.digest, key),
    )
    return msgspec.json.format(msgspec.json.encode(copy)) + b"\n"


def unsealed(data: bytes, tool_id: str, key: bytes) -> SealedState | None:
    """Returns a sealed copy. None: it is none, it is of another tool or store, or somebody changed it."""
    try:
        copy = msgspec.json.decode(data, type=SealedState)
    except (msgspec.MsgspecError, RecursionError):
        return None
    intact = hmac.compare_digest(copy.seal.encode(), _seal(copy.id, copy.status, copy.digest, key).encode())
    return copy if intact and copy.id == tool_id and key else None


def _seal(tool_id: str, status: str, digest: str, key: bytes) -> str:
    return hmac.new(key, msgspec.json.encode([tool_id, status, digest]), hashlib.sha256).hexdigest()


def _key(tenant: str, tool_id: str) -> str:
    return f"{tenant}\0{tool_id}"


def _holder(record: Record) -> bytes:
    return msgspec.json.encode([record.tenant, record.id])


def _taken(name: str) -> RequestError:
    return RequestError(f"there is a tool {name!r} already; choose another name", param="name", code="taken")


def _stored(document: bytes) -> StoredRecord:
    try:
        return StoredRecord(record=msgspec.json.decode(document, type=Record), document=document)
    except msgspec.MsgspecError as error:
        raise StorageError(f"the record of a tool cannot be read: {error}") from error
