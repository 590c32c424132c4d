"""Checks of the provider object itself, before any request: it has the members that `ports.Provider` names, each of its kind.

Part of the contract suite of providers (`provider_contract`); the name of each function is printed as the promise it checks.
"""

from __future__ import annotations

import inspect

from toolcaddie.testing.contract import ContractError
from toolcaddie.testing.provider_contract.subject import KEY, Checks, Subject

CHECKS = Checks()

_METHODS = ("complete", "stream", "models", "close")
_NOWHERE = "http://127.0.0.1:9"
"""An address without a server, which is enough here: making a provider sends no request."""


@CHECKS.add()
async def it_has_a_name_and_the_four_methods(subject: Subject) -> None:
    provider = subject.provider(_NOWHERE, KEY)
    kind = type(provider).__name__
    missing = [name for name in ("name", *_METHODS) if getattr(provider, name, None) is None]
    if missing:
        raise ContractError(f"{kind} has no {', no '.join(missing)}")
    if not isinstance(provider.name, str) or not provider.name:
        raise ContractError(f"{kind}.name is {provider.name!r}: it has to be a string that is not empty")
    values = [name for name in _METHODS if not callable(getattr(provider, name))]
    if values:
        raise ContractError(f"{kind} has members that are not methods: {', '.join(values)}")
    if inspect.iscoroutinefunction(provider.stream):
        raise ContractError(f"{kind}.stream is a coroutine: it has to be `async def` with a `yield`, or a plain `def`")
    await provider.close()
