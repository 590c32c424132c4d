"""Other names for models, from the settings of an operator: a client asks for `fast`, the upstream gets the model's own name."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from toolcaddie.core.wire import Envelope

_MODEL = msgspec.json.Decoder(str)


def with_model(envelope: Envelope, aliases: Mapping[str, str]) -> tuple[Envelope, bytes] | None:
    """Returns the request with the real name of its model, and its new body, in which all other fields have their original bytes.
    None: the request does not use an alias."""
    try:
        model = aliases.get(_MODEL.decode(envelope.fields.get("model", b"")))
    except (msgspec.DecodeError, UnicodeError):
        return None  # the wire refuses it, by name
    if model is None:
        return None
    fields = {**envelope.fields, "model": msgspec.Raw(msgspec.json.encode(model))}
    return Envelope(fields), msgspec.json.encode(fields)
