"""Definitions of tools in the form in which they are sent to a provider. Each tool is encoded once; the array of a request
consists of these definitions."""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from toolcaddie.core.catalog import Catalog
from toolcaddie.core.delivery import DeliveredTool, Delivery, DeliveryPlan, Strategy
from toolcaddie.core.meta_names import READ_RESULT
from toolcaddie.core.schema import estimate_tokens, wire_definition
from toolcaddie.core.selection import Budget, SelectedTool
from toolcaddie.core.tool import Tool
from toolcaddie.util.bounded import Bounded, Limit


@dataclass(frozen=True, slots=True)
class Definition:
    """The definition of a tool in the form in which it is sent."""

    tool: Tool
    wire: dict[str, Any]
    """The definition as JSON values, in the format of OpenAI's API."""
    digest: bytes
    tokens: int


@dataclass(frozen=True, slots=True)
class _Array:
    """The definitions that a model sees, and what they were made from, which stays alive with them."""

    catalog: Catalog
    meta: tuple[Tool, ...]
    wire: tuple[dict[str, Any], ...]
    digest: str
    tokens: int


_ARRAYS = 256
"""The largest number of cached arrays."""
_ARRAY_TOOLS = 20_000
"""The largest number of definitions in the cached arrays together."""


class Definitions:
    """Encodes each tool once, and caches the most recently used definitions, at most `size` with at most `tokens` in all.

    The cache key is the `id` of the tool, because a tool contains dicts and cannot be hashed.
    """

    def __init__(self, size: int = 50_000, *, tokens: int = 16_000_000) -> None:
        self._cache: Bounded[tuple[int, bool], Definition] = Bounded(size, Limit(tokens, _tokens))
        self._arrays: Bounded[Hashable, _Array] = Bounded(_ARRAYS, Limit(_ARRAY_TOOLS, _length))
        """Arrays of definitions that were sent last, by what they were made from: most requests have the same again."""
        self._last: tuple[Sequence[DeliveredTool], _Array | None] = ((), None)
        """The latest array, and the tools from which it was made."""
        self._selected: tuple[Sequence[SelectedTool], tuple[DeliveredTool, ...]] = ((), ())
        """The latest selection and its tools as they are delivered. A catalog that is sent whole has the same selection in each
        request."""

    def of(self, tool: Tool, *, slim: bool = False) -> Definition:
        """Returns the definition of a tool, `slim` (without examples, titles and long descriptions) or in full."""
        key = (id(tool), slim)  # unique, because the cached definition keeps the tool alive
        definition = self._cache.get(key)
        if definition is not None:
            return definition
        wire = wire_definition(tool, slim=slim)
        encoded = msgspec.json.encode(wire)
        digest = hashlib.sha256(encoded).digest()
        definition = Definition(tool, wire, digest, estimate_tokens(encoded))
        self._cache.put(key, definition)
        return definition

    def forget(self, catalog: Catalog) -> None:
        """Drops what is cached about a catalog that is no longer used, so that it does not stay in memory."""
        for key in self._arrays:
            array = self._arrays.peek(key)
            if array is not None and array.catalog.version == catalog.version:
                self._arrays.pop(key)
        for tool in catalog.tools:
            if tool.tenant is not None:  # the others may be in other catalogs too
                self._cache.pop((id(tool), False))
                self._cache.pop((id(tool), True))
        self._last, self._selected = ((), None), ((), ())

    def delivered(self, selected: Sequence[SelectedTool]) -> tuple[DeliveredTool, ...]:
        """Returns the selected tools as they are delivered; for the same selection as before, the same object."""
        last, tools = self._selected
        if selected is not last:
            tools = tuple([DeliveredTool(name=item.tool.name, slim=item.slim) for item in selected])
            self._selected = (selected, tools)
        return tools

    def tokens(self, plan: DeliveryPlan, tools: Iterable[DeliveredTool]) -> int:
        """Returns the sum of the tokens of these tools, in the form in which they are sent."""
        return sum([definition.tokens for definition in self._all(plan, tools)])

    def size(self, plan: DeliveryPlan, delivered: DeliveredTool) -> int:
        """Returns the tokens of one tool, in the form in which it is sent."""
        tool = plan.view.get(delivered.name)
        assert tool is not None, f"{delivered.name} was planned but is not in the view"
        return self.of(tool, slim=delivered.slim).tokens

    def _all(self, plan: DeliveryPlan, tools: Iterable[DeliveredTool]) -> list[Definition]:
        """Returns the definitions of these tools, which must be in the view of the plan."""
        definitions: list[Definition] = []
        for delivered in tools:
            tool = plan.view.get(delivered.name)
            assert tool is not None, f"{delivered.name} was planned but is not in the view"
            definitions.append(self.of(tool, slim=delivered.slim))
        return definitions

    def delivery(
        self,
        strategy: Strategy,
        plan: DeliveryPlan,
        tools: Sequence[DeliveredTool],
        *,
        reused: bool,
        note: str,
        meta: Sequence[Tool] | None = None,
        added: Sequence[str] = (),
    ) -> Delivery:
        """Returns the delivery of the meta tools (`meta`; None: those of the plan) and `tools`.

        Tools to which earlier messages refer, and those in `added`, are deferred: their definitions are in the request, but the
        model sees them only from the message that refers to them.
        """
        meta = plan.meta if meta is None else meta
        meta, tools, referenced = tuple(meta), tuple(tools), (*plan.referenced, *added)
        deferred: list[str] = []
        if referenced:
            in_array = {tool.name for tool in tools}
            deferred = [name for name in referenced if name not in in_array and plan.view.get(name) is not None]
        hidden = self._all(plan, [DeliveredTool(name=name) for name in deferred])
        array = self._array(plan, meta, tools)
        if hidden and not plan.capabilities.deferral:
            # Another provider made the references; this one needs the tools in the array.
            places = _places_left(plan, len(array.wire))
            array = _array(plan, meta, [*self._visible(plan, meta, tools), *hidden[:places]])
            hidden, deferred = [], []
        return Delivery(
            strategy=strategy,
            definitions=(*array.wire, *[definition.wire for definition in hidden]) if hidden else array.wire,
            meta=tuple([each.name for each in meta]),
            tools=tools,
            prefix_digest=array.digest,
            tokens=array.tokens,
            tokens_all=plan.selection.tokens_all,
            reused=reused,
            note=note,
            deferred=frozenset(deferred),
        )

    def _array(self, plan: DeliveryPlan, meta: tuple[Tool, ...], tools: tuple[DeliveredTool, ...]) -> _Array:
        """Returns the array of the meta tools and these tools, the one that was made last from the same."""
        last_tools, last = self._last
        if (
            tools is last_tools
            and last is not None
            and last.catalog is plan.view.catalog
            and _are_same(last.meta, meta)
        ):
            return last  # the whole catalog again; to hash and compare its tools takes longer
        key = (id(plan.view.catalog), tuple(map(id, meta)), tools)
        array = self._arrays.get(key)
        if array is None:
            array = _array(plan, meta, self._visible(plan, meta, tools))
            self._arrays.put(key, array)
        self._last = (tools, array)
        return array

    def _visible(
        self, plan: DeliveryPlan, meta: Sequence[Tool], tools: Sequence[DeliveredTool]
    ) -> Sequence[Definition]:
        first = [self.of(each) for each in meta if each.name != READ_RESULT]
        # It is added late, and must not move the others.
        last = [self.of(each) for each in meta if each.name == READ_RESULT]
        return [*first, *self._all(plan, tools), *last]


def _array(plan: DeliveryPlan, meta: tuple[Tool, ...], definitions: Sequence[Definition]) -> _Array:
    return _Array(
        catalog=plan.view.catalog,
        meta=meta,
        wire=tuple([definition.wire for definition in definitions]),
        digest=hashlib.sha256(b"".join([definition.digest for definition in definitions])).hexdigest(),
        tokens=sum([definition.tokens for definition in definitions]),
    )


def _are_same(some: Sequence[Tool], others: Sequence[Tool]) -> bool:
    return len(some) == len(others) and all(map(operator.is_, some, others))


def _length(array: _Array) -> int:
    return len(array.wire)


def _tokens(definition: Definition) -> int:
    return definition.tokens


def _places_left(plan: DeliveryPlan, tools: int) -> int | None:
    """Returns the number of further definitions that the provider's cap allows; None: any number."""
    cap = plan.budget.provider_cap
    return None if cap is None else max(0, cap - tools)


def fits(delivery: Delivery, budget: Budget) -> bool:
    within_cap = budget.provider_cap is None or len(delivery.definitions) <= budget.provider_cap
    return within_cap and (budget.max_tokens is None or delivery.tokens <= budget.max_tokens)
