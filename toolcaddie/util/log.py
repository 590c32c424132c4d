"""The logger of every module of Toolcaddie: it writes through structlog if the application has configured structlog, otherwise
through the standard library's `logging`.

Without this choice, unconfigured structlog would print every line to the standard output of a program that uses Toolcaddie as
a library.

The first argument is the name of the event in snake_case; details are passed as keyword arguments:

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
    """A logger that chooses between structlog and `logging` for every line, because a program may configure structlog after it
    has imported Toolcaddie."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._standard = logging.getLogger(name)
        self._unconfigured = structlog.wrap_logger(
            self._standard,
            processors=[structlog.stdlib.filter_by_level, _in_words],
            wrapper_class=structlog.stdlib.BoundLogger,
        )

    def is_enabled_for(self, level: Literal["debug", "info"]) -> bool:
        """Returns False if a line of this level would be dropped. Call it where making the line costs more than this check."""
        if structlog.is_configured() and structlog.stdlib.filter_by_level not in structlog.get_config()["processors"]:
            return True
        return self._standard.isEnabledFor(_LEVELS[level])

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
    """Returns the event and its values as one message, because the usual format of `logging` shows only the message."""
    event, error = values.pop("event"), values.pop("exc_info", None)
    line = " ".join([str(event), *(f"{name}={value!r}" for name, value in values.items())])
    return (line,), {"exc_info": error} if error else {}
