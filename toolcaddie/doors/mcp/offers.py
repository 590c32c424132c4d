"""Prompts and resources that the MCP door offers besides tools: `@prompt` and `@resource` mark the functions of a module that the
setting `mcp.offers` names.

    from toolcaddie.doors.mcp.offers import prompt, resource

    @prompt
    def summary(member: str) -> str:
        return f"Summarize the visits of {member}."

    @resource("gym://rules", mime_type="text/plain")
    def rules() -> str: ...

    @resource("gym://members/{id}")
    async def member(id: str) -> str: ...

`await changed(rules)`, or `await changed(member, id="7")`, tells the clients that subscribed to a resource that it has changed.
A parameter named `client` gets the client of the request (`core.client.CallerClient`), which the function may ask.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import quote, unquote

from toolcaddie.core.client import CallerClient
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import ConfigError
from toolcaddie.sources.named import import_named

F = TypeVar("F", bound=Callable[..., Any])
Completions = Sequence[str] | Callable[[str], Sequence[str]]
"""Values of an argument, or a function that returns those that fit what was typed."""

_MARK = "__toolcaddie_offer__"
_PLACE = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
_MOST_COMPLETIONS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    name: str
    required: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A prompt, or a resource."""

    function: Callable[..., Any]
    name: str
    title: str | None = None
    description: str = ""
    uri: str = ""
    """The address of a resource, or its template; empty: this is a prompt."""
    mime_type: str = ""
    roles: tuple[str, ...] = ()
    """Roles that may use it; empty: all."""
    complete: Mapping[str, Completions] = field(default_factory=dict)
    """Values of arguments, for clients that complete them."""
    listeners: list[Callable[[str], Awaitable[None]]] = field(default_factory=list, repr=False, compare=False)
    """Receivers of the address of a resource that has changed: the servers that offer it."""

    @property
    def is_template(self) -> bool:
        return bool(_PLACE.search(self.uri))

    @property
    def arguments(self) -> Sequence[Argument]:
        """The arguments of the function, without the client."""
        return [
            Argument(name=name, required=parameter.default is inspect.Parameter.empty)
            for name, parameter in inspect.signature(self.function).parameters.items()
            if name != "client"
        ]

    def matched(self, uri: str) -> Mapping[str, str] | None:
        """Returns the arguments that an address contains; None: this is the address of something else."""
        if not self.is_template:
            return {} if uri == self.uri else None
        pattern = "".join(
            f"(?P<{part}>[^/]+)" if place % 2 else re.escape(part) for place, part in enumerate(_PLACE.split(self.uri))
        )
        match = re.fullmatch(pattern, uri)
        return None if match is None else {name: unquote(value) for name, value in match.groupdict().items()}

    def address(self, arguments: Mapping[str, str]) -> str:
        """Returns the address of the resource with these arguments."""
        return _PLACE.sub(lambda place: quote(str(arguments[place[1]]), safe=""), self.uri)

    def visible_to(self, principal: Principal) -> bool:
        return not self.roles or principal.role in self.roles

    async def value(self, arguments: Mapping[str, str], client: CallerClient | None) -> Any:
        """Returns what the function returns for these arguments."""
        takes_client = "client" in inspect.signature(self.function).parameters
        result = self.function(**arguments, **({"client": client} if takes_client else {}))
        return await result if inspect.isawaitable(result) else result

    def completions(self, argument: str, typed: str) -> Sequence[str]:
        """Returns the values of an argument that begin with what was typed."""
        values = self.complete.get(argument, ())
        fitting = values(typed) if callable(values) else [value for value in values if value.startswith(typed)]
        return list(fitting)[:_MOST_COMPLETIONS]


def prompt(function: F | None = None, /, **options: Any) -> Any:
    """Marks a function as a prompt. Its parameters are the arguments, its docstring the description. It returns text, a block, or
    a list of them; `(role, text)` for a message that is not the user's. Options: `name`, `title`, `roles`, `complete`."""
    if function is None:
        return lambda marked: prompt(marked, **options)
    return _marked(function, **options)


def resource(uri: str, /, **options: Any) -> Callable[[F], F]:
    """Marks a function as a resource at an address, or at all addresses of a template such as `gym://members/{id}`. It returns
    text or bytes. Options: `name`, `title`, `mime_type`, `roles`, `complete`."""
    if ":" not in uri:
        raise ConfigError(f"@resource({uri!r}): write an address with a scheme, such as gym://rules")
    return lambda function: _marked(function, uri=uri, **options)


async def changed(function: Callable[..., Any], **arguments: str) -> None:
    """Tells subscribed clients that a resource has changed. `arguments`: those of a template."""
    offer: Offer = getattr(function, _MARK)
    for listener in tuple(offer.listeners):
        await listener(offer.address(arguments))


def _marked(function: F, *, name: str = "", roles: Sequence[str] = (), **options: Any) -> F:
    described = inspect.getdoc(function) or ""
    offer = Offer(
        function=function, name=name or function.__name__, description=described, roles=tuple(roles), **options
    )
    wanted, names = set(_PLACE.findall(offer.uri)), {argument.name for argument in offer.arguments}
    if offer.uri and wanted != names:
        raise ConfigError(
            f"@resource({offer.uri!r}): {offer.name} takes {sorted(names)}, the address has {sorted(wanted)}"
        )
    setattr(function, _MARK, offer)
    return function


@dataclass(frozen=True, slots=True, kw_only=True)
class Offers:
    """All prompts and resources of a server."""

    prompts: Sequence[Offer] = ()
    resources: Sequence[Offer] = ()

    def prompt(self, name: str, principal: Principal) -> Offer | None:
        """Returns a prompt that the principal may use; None: there is none of this name."""
        return next((each for each in self.prompts if each.name == name and each.visible_to(principal)), None)

    def resource(self, uri: str, principal: Principal) -> tuple[Offer, Mapping[str, str]] | None:
        """Returns the resource at an address, with the arguments in the address; None: there is none."""
        for each in self.resources:
            if each.visible_to(principal) and (arguments := each.matched(uri)) is not None:
                return each, arguments
        return None


def load_offers(spec: str | None) -> Offers:
    """Returns the marked functions of a module `python:name`. Raises `ConfigError` if it has none."""
    if spec is None:
        return Offers()
    module = import_named(spec, spec.removeprefix("python:"))
    offers = [offer for value in vars(module).values() if isinstance(offer := getattr(value, _MARK, None), Offer)]
    if not offers:
        raise ConfigError(
            f"mcp.offers {spec!r} has no prompt and no resource; mark functions with @prompt or @resource"
        )
    return Offers(
        prompts=[offer for offer in offers if not offer.uri], resources=[offer for offer in offers if offer.uri]
    )
