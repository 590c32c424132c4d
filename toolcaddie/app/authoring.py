"""The service of tools that bots write, with the settings of the source `authored`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import ValidationError, convert

from toolcaddie.app.box import names_source
from toolcaddie.app.settings import Settings
from toolcaddie.core.errors import ConfigError
from toolcaddie.parts import Parts
from toolcaddie.sources.arranged import Arrangement
from toolcaddie.tools.authored import AuthoredOptions, Authorship, authorship

_TYPE = "authored"


def authorship_of(settings: Settings, parts: Parts) -> Authorship:
    """Returns the service over the folder that the settings name for the source `authored`, or over the default folder. `parts`
    needs a store. Raises `ConfigError`."""
    try:
        options = convert(_config_of(settings), AuthoredOptions)
    except ValidationError as error:
        raise ConfigError(f"source {_TYPE!r}: {error}") from error
    return authorship(parts=parts, **options)


def writes_tools(settings: Settings) -> bool:
    """Returns True if the settings have the source `authored`, so that bots may write tools."""
    return names_source(settings, _TYPE)


def _config_of(settings: Settings) -> Mapping[str, Any]:
    """Returns the settings of the source without those that arrange its tools."""
    for part in settings.source:
        if part.type == _TYPE:
            return {key: value for key, value in part.config.items() if key not in Arrangement.__struct_fields__}
    return {}
