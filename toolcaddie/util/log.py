"""Log lines of a library: through structlog if the application has configured it, otherwise through the standard library.

structlog's own default would print every line to the standard output of a program that never asked for it.

An event is named in snake_case after what happened; its details are values:

    log = Logger(__name__)
    log.warning("cache_not_written", tool=tool.name, error=str(error))
"""

from __future__ import annotations

import logging
from collections.abc import MutableMapping
from typing import Any, Literal

import structlog

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO}


class Logger:
    """A logger that looks up its target for every line: a program may configure logging after its imports."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._standard = logging.getLogger(name)
        self._unconfigured = structlog.wrap_logger(
            self._standard,
            processors=[structlog.stdlib.filter_by_level, _in_words],
            wrapper_class=structlog.stdlib.BoundLogger,
        )

    def is_enabled_for(self, level: Literal["debug", "info"]) -> bool:
        """Returns False if a line of this level would be dropped. For places where making the line costs more than this call."""
        return structlog.is_configured() or self._standard.isEnabledFor(_LEVELS[level])

    def debug(self, event: str, **values: Any) -> None:
        self._logger().debug(event, **values)

    def info(self, event: str, **values: Any) -> None:
        self._logger().info(event, **values)

    def warning(self, event: str, **values: Any) -> None:
        self._logger().warning(event, **values)

    def error(self, event: str, **values: Any) -> None:
        self._logger().error(event, **values)

    def exception(self, event: str, **values: Any) -> None:
        self._logger().exception(event, **values)

    def _logger(self) -> Any:
        return structlog.get_logger(self._name) if structlog.is_configured() else self._unconfigured


def _in_words(_: Any, __: str, values: MutableMapping[str, Any]) -> tuple[tuple[str], dict[str, Any]]:
    """Returns the event and its values as one line, because the standard library's usual format shows only that."""
    event, error = values.pop("event"), values.pop("exc_info", None)
    line = " ".join([str(event), *(f"{name}={value!r}" for name, value in values.items())])
    return (line,), {"exc_info": error} if error else {}
