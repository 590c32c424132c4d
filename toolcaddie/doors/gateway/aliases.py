"""Other names for models, from the settings of an operator: a client asks for `fast`, the upstream gets the model's own name."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from toolcaddie.core.wire import Envelope

_MODEL = msgspec.json.Decoder(str)


def with_model(envelope: Envelope, aliases: Mapping[str, str], default: str = "") -> tuple[Envelope, bytes] | None:
    """Returns the request with the real name of its model, and its new body, in which all other fields have their original bytes.
    `default`: the model of a request that names none; a request for a stored prompt needs none. None: nothing changes."""
    if not aliases and (not default or "model" in envelope.fields):
        return None
    if "model" not in envelope.fields and default and "prompt" not in envelope.fields:
        model = aliases.get(default, default)
    else:
        try:
            model = aliases.get(_MODEL.decode(envelope.fields.get("model", b"")), "")
        except (msgspec.DecodeError, UnicodeError):
            return None  # the wire refuses it, by name
    if not model:
        return None
    fields = {**envelope.fields, "model": msgspec.Raw(msgspec.json.encode(model))}
    return Envelope(fields), msgspec.json.encode(fields)
