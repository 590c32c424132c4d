"""A measurement as it is stored for the durable queue.

It is JSON, not the pickle that a process of this server gets, because whoever can write the database must not be able to run code
in a server. Of each configuration it has the settings that an evaluation varies; the server that measures adds its own to them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from toolcaddie.app.measuring import Configuration
from toolcaddie.app.measuring_process import Measurement, MeasurementOf
from toolcaddie.app.settings import DeliverySettings, EmbeddingSettings, Learning, Settings

C = TypeVar("C")


class _Varied(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that an evaluation varies."""

    preset: str
    selection: Mapping[str, Any]
    budget: Mapping[str, Any]
    embedding: EmbeddingSettings
    learning: Learning
    delivery: DeliverySettings


class _Configuration(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    settings: _Varied
    hints: Mapping[str, tuple[str, ...]]


_STORED = msgspec.json.Decoder(MeasurementOf[_Configuration])


def stored_form(measurement: Measurement) -> bytes:
    """Returns a measurement as it is stored."""
    configurations = tuple(
        _Configuration(name=each.name, settings=_varied(each.settings), hints=each.hints)
        for each in measurement.configurations
    )
    return msgspec.json.encode(_with(measurement, configurations))


def measurement_of(stored: bytes, base: Settings) -> Measurement:
    """Returns a stored measurement. `base`: the settings of the server that measures."""
    measurement = _STORED.decode(stored)
    configurations = tuple(
        Configuration(name=each.name, settings=replace(base, **_fields(each.settings)), hints=each.hints)
        for each in measurement.configurations
    )
    return _with(measurement, configurations)


def _with(measurement: MeasurementOf[Any], configurations: tuple[C, ...]) -> MeasurementOf[C]:
    return replace(measurement, configurations=configurations)


def _varied(settings: Settings) -> _Varied:
    return _Varied(**{name: getattr(settings, name) for name in _Varied.__struct_fields__})


def _fields(varied: _Varied) -> dict[str, Any]:
    return {name: getattr(varied, name) for name in _Varied.__struct_fields__}
