"""Opens and closes tool sources that connect to something, such as a server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence

from toolcaddie.core.assessment import NOTHING, Assessment
from toolcaddie.core.catalog import Category
from toolcaddie.core.errors import ConfigError
from toolcaddie.core.events import SourceStatus
from toolcaddie.core.run import RunContext
from toolcaddie.core.tool import Tool, ToolResult, failed
from toolcaddie.ports import ClaimingSource, OpenableSource, ToolSource
from toolcaddie.sources.assessing import assessment
from toolcaddie.util.log import Logger

log = Logger(__name__)

_FIRST_WAIT, _LONGEST_WAIT = 1.0, 60.0
"""Seconds before a source that could not be opened is tried again: at first, and at most."""

Report = Callable[[SourceStatus], None]
"""Takes the new state of a source. Called from any thread."""


def log_status(status: SourceStatus) -> None:
    """Logs the state of a source. Changed tools are not logged, because a program may change its functions often."""
    if status.status == "failed":
        log.error("source_failed", source=status.source, error=status.detail)
    elif status.status != "changed":
        log.info(f"source_{status.status}", source=status.source, tools=status.tools)


async def open_sources(sources: Iterable[ToolSource], report: Report = log_status) -> None:
    """Opens all sources that connect to something, concurrently. If one fails, all are closed again.

    Raises `ConfigError` naming every source that failed.
    """
    openable = _openable(sources)
    try:
        outcomes = await asyncio.gather(*(source.open() for source in openable), return_exceptions=True)
    except asyncio.CancelledError:
        await close_sources(openable, report)
        raise
    failures = [(source, error) for source, error in zip(openable, outcomes, strict=True) if error is not None]
    for source, error in failures:
        report(SourceStatus(source=source.name, status="failed", detail=_cause(error)))
    if failures:
        await close_sources(openable, report)
        failed_sources = "; ".join(
            f"source {source.name!r} cannot be opened: {_cause(error)}" for source, error in failures
        )
        raise ConfigError(
            f"{failed_sources}. Correct its settings, or start without its tools: set required = false in its table, or "
            "leave it out of --box"
        )
    for source in openable:
        if not isinstance(source, OptionalSource) or source.is_open:
            report(SourceStatus(source=source.name, status="connected", tools=len(source.tools())))


async def close_sources(sources: Iterable[ToolSource], report: Report = log_status) -> None:
    """Closes all sources that connect to something. An error is logged and not raised, so that all of them are closed."""
    openable = _openable(sources)
    outcomes = await asyncio.gather(*(source.close() for source in openable), return_exceptions=True)
    for source, error in zip(openable, outcomes, strict=True):
        if error is not None:
            log.error("source_not_closed", source=source.name, error=_cause(error))
        report(SourceStatus(source=source.name, status="closed"))


class OptionalSource:
    """Wraps a source that is not required: if it cannot be opened, its tools are absent, and everything else works. It is tried
    again from time to time until it opens."""

    def __init__(self, source: OpenableSource, report: Report = log_status) -> None:
        self._source = source
        self._report = report
        self._switches = 0
        """Number of times that the source was opened or closed, because its tools change each time."""
        self.is_open = False
        self._failure = ""
        self._retrying: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        return self._source.name

    @property
    def revision(self) -> int:
        return self._source.revision + self._switches

    @property
    def claims(self) -> frozenset[str]:
        return self._source.claims if isinstance(self._source, ClaimingSource) else frozenset()

    @property
    def wrapped(self) -> Sequence[ToolSource]:
        return (self._source,)

    def tools(self) -> Sequence[Tool]:
        return self._source.tools() if self.is_open else ()

    def categories(self) -> Sequence[Category]:
        return self._source.categories() if self.is_open else ()

    async def call_tool(self, tool: Tool, arguments: dict[str, object], context: RunContext) -> ToolResult:
        if not self.is_open:
            return failed(f"the source {self.name!r} of {tool.name!r} is not connected; do without it", "revoked")
        return await self._source.call_tool(tool, arguments, context)

    async def assess(self, tool: Tool, arguments: dict[str, object], context: RunContext) -> Assessment:
        return await assessment(self._source, tool, arguments, context) if self.is_open else NOTHING

    async def open(self) -> None:
        """Opens the source. If that fails, the failure is reported, the source has no tools, and it is tried again later."""
        if not await self._opened():
            self._retrying = asyncio.create_task(self._retry())

    async def _opened(self) -> bool:
        """Opens the source. Returns False after a failure, which is reported if it is another one than before."""
        try:
            await self._source.open()
        except Exception as error:  # noqa: BLE001  somebody else's source: its error is reported, its tools are absent
            if _cause(error) != self._failure:
                self._failure = _cause(error)
                self._report(SourceStatus(source=self.name, status="failed", detail=self._failure))
            await self._source.close()
            return False
        self._failure = ""
        self.is_open = True
        self._switches += 1
        return True

    async def _retry(self) -> None:
        wait = _FIRST_WAIT
        while True:
            await asyncio.sleep(wait)
            if await self._opened():
                self._report(SourceStatus(source=self.name, status="connected", tools=len(self._source.tools())))
                return
            wait = min(_LONGEST_WAIT, wait * 2)

    async def close(self) -> None:
        retrying, self._retrying = self._retrying, None
        if retrying is not None:
            retrying.cancel()
            await asyncio.wait({retrying})
        if self.is_open:
            self.is_open = False
            self._switches += 1
        await self._source.close()


def _openable(sources: Iterable[ToolSource]) -> list[OpenableSource]:
    return [source for source in sources if isinstance(source, OpenableSource)]


def _cause(error: BaseException) -> str:
    return str(error) or type(error).__name__
