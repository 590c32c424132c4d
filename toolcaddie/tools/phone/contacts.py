"""The contacts of a bot: names and numbers in the store, a document for each bot of each tenant."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from toolcaddie.core.control import Principal
from toolcaddie.core.errors import ConfigError, RequestError, StorageError
from toolcaddie.core.schema import digest
from toolcaddie.ports import Store
from toolcaddie.tools.phone.numbers import NumberError, e164

MOST_CONTACTS = 500
"""The largest number of contacts of a bot."""
_KIND = "phone-contacts"
_NAME_MOST = 64
_FILE_MOST = 1024 * 1024
_TRIES = 20
"""The largest number of times that a change is repeated because another call changed the document meanwhile."""
_IMPORTED_FOR = Principal().tenant
"""The tenant whose bots begin with the contacts of the file."""

Numbers = dict[str, str]
"""Numbers by name."""


def key_of(principal: Principal) -> str:
    """Returns the key under which something of a bot of a tenant is stored."""
    return digest([principal.tenant, principal.bot])


def name_of(text: str) -> str:
    """Returns a name in the form in which it is stored: in small letters, with single spaces. Raises `RequestError`."""
    name = " ".join(unicodedata.normalize("NFKC", text).split()).lower()
    if not name or len(name) > _NAME_MOST or name.startswith("+") or not name.isprintable():
        raise RequestError(
            f"contact: a name has 1 to {_NAME_MOST} characters and does not begin with +", param="contact"
        )
    return name


class Contacts:
    """The contacts of all bots. `imported`: those with which a bot begins that has none yet."""

    def __init__(self, store: Store, imported: Mapping[str, str]) -> None:
        self._store = store
        self._imported = dict(imported)

    async def all(self, principal: Principal) -> Numbers:
        """Returns the contacts of the principal's bot, by name."""
        return (await self._read(principal))[1]

    async def add(self, principal: Principal, name: str, number: str) -> None:
        """Adds a contact or changes its number. Raises `RequestError` if there are too many."""

        def changed(numbers: Numbers) -> Numbers:
            if name not in numbers and len(numbers) >= MOST_CONTACTS:
                raise RequestError(f"there are {MOST_CONTACTS} contacts already; remove one first")
            return {**numbers, name: number}

        await self._change(principal, changed)

    async def remove(self, principal: Principal, name: str) -> bool:
        """Removes a contact. Returns False if there was none."""
        removed = False

        def changed(numbers: Numbers) -> Numbers:
            nonlocal removed
            removed = name in numbers
            return {held: number for held, number in numbers.items() if held != name}

        await self._change(principal, changed)
        return removed

    async def _read(self, principal: Principal) -> tuple[bytes | None, Numbers]:
        value = await self._store.get(_KIND, key_of(principal))
        if value is None:
            return None, dict(self._imported) if principal.tenant == _IMPORTED_FOR else {}
        try:
            return value, msgspec.json.decode(value, type=Numbers)
        except msgspec.MsgspecError as error:
            raise StorageError(f"the contacts of bot {principal.bot!r} cannot be read: {error}") from error

    async def _change(self, principal: Principal, changed: Callable[[Numbers], Numbers]) -> None:
        for _ in range(_TRIES):
            before, numbers = await self._read(principal)
            value = msgspec.json.encode(changed(numbers))
            if await self._store.compare_and_set(_KIND, key_of(principal), value, expected=before):
                return
        raise StorageError("the contacts are changed by others all the time; try again")


def read_contacts(path: str) -> Numbers:
    """Returns the contacts of a JSON file: an object of names and numbers, or a list of objects with `name` and `phone_number`
    (or `phoneNumber`, `phone`, `number`). Raises `ConfigError` that names each wrong entry."""
    place = f"source 'phone': contacts_file {path}"
    try:
        with Path(path).open("rb") as file:
            data = file.read(_FILE_MOST + 1)
        content = msgspec.json.decode(data)
    except OSError as error:
        raise ConfigError(f"{place} cannot be read: {error.strerror}") from error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{place} is no JSON: {error}") from error
    numbers: Numbers = {}
    for at, (name, number) in enumerate(_entries(content, place), start=1):
        try:
            numbers[name_of(name)] = e164(number)
        except (RequestError, NumberError) as error:
            raise ConfigError(f"{place}: entry {at}, {name[:_NAME_MOST]!r}: {error}") from error
    if len(data) > _FILE_MOST or len(numbers) > MOST_CONTACTS:
        raise ConfigError(f"{place} has more than {MOST_CONTACTS} contacts")
    return numbers


def _entries(content: object, place: str) -> list[tuple[str, str]]:
    """Returns names and numbers of a contacts file."""
    entries: list[tuple[object, object]]
    if isinstance(content, dict):
        entries = list(content.items())
    elif isinstance(content, list):
        entries = [_entry(each) for each in content]
    else:
        raise ConfigError(
            f"{place} must be an object of names and numbers, or a list of objects with name and phone_number"
        )
    texts = [(name, number) for name, number in entries if isinstance(name, str) and isinstance(number, str)]
    if len(texts) < len(entries):
        raise ConfigError(
            f"{place}: {len(entries) - len(texts)} entries have no name or no number, or one that is no text"
        )
    return texts


def _entry(entry: object) -> tuple[object, object]:
    if not isinstance(entry, dict):
        return None, None
    number = next((entry[key] for key in ("phone_number", "phoneNumber", "phone", "number") if key in entry), None)
    return entry.get("name"), number
