"""The object itself, before any request: it has the members of `ports.Provider`, each of its kind."""

from __future__ import annotations

import inspect

from toolcaddie.testing.contract import ContractError
from toolcaddie.testing.provider_contract.subject import KEY, Checks, Subject

CHECKS = Checks()

_METHODS = ("complete", "stream", "models", "close")
_NOWHERE = "http://127.0.0.1:9"
"""An address without a server: making a provider sends no request."""


@CHECKS.add()
async def it_has_a_name_and_the_four_methods(subject: Subject) -> None:
    provider = subject.provider(_NOWHERE, KEY)
    kind = type(provider).__name__
    missing = [name for name in ("name", *_METHODS) if getattr(provider, name, None) is None]
    if missing:
        raise ContractError(f"{kind} has no {', no '.join(missing)}")
    if not isinstance(provider.name, str) or not provider.name:
        raise ContractError(f"the name of {kind} is no word: {provider.name!r}")
    values = [name for name in _METHODS if not callable(getattr(provider, name))]
    if values:
        raise ContractError(f"of {kind} {' and '.join(values)} cannot be called")
    if inspect.iscoroutinefunction(provider.stream):
        raise ContractError(f"{kind}.stream is a coroutine: it has to be `async def` with a `yield`, or a plain `def`")
    await provider.close()
