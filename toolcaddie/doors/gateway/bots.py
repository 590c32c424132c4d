"""Bots as models: a client asks for the model `bot:NAME`, and the bot of this name answers with its own model and tools.

    client.chat.completions.create(model="bot:therapist", messages=[...])

Such a request is always a run. Nothing of it goes to the upstream unread, because the upstream knows no bots.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

import msgspec

from toolcaddie.control.bots import DayBudget, unknown_bot
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import RequestError
from toolcaddie.core.message import ModelReply, RawBody
from toolcaddie.core.tool import JsonObject
from toolcaddie.core.wire import Envelope
from toolcaddie.doors.gateway.problems import RefusedError, problem
from toolcaddie.doors.gateway.router import Caller
from toolcaddie.runtime import Runtime
from toolcaddie.util.replacing import replace

PREFIX = "bot:"
_MODEL = msgspec.json.Decoder(str)


class BotModels:
    """Knows the bots of `runtime` as models. `default`: the model of bots without one, if the runtime has none either."""

    def __init__(self, runtime: Runtime, default: str = "") -> None:
        self._runtime = runtime
        self._default = default

    def caller_of(self, envelope: Envelope, caller: Caller) -> Caller:
        """Returns the caller as the bot that the request names as its model; unchanged, if it names another model.

        Raises `RefusedError` for a bot that does not exist or has no model, and for a key that belongs to another bot.
        """
        name = _name_in(envelope.fields.get("model", b""))
        if name is None:
            return caller
        principal = self._principal(name, caller.principal)
        self.model_of(f"{PREFIX}{name}")
        return replace(caller, principal=principal, by_bot=True)

    def model_of(self, model: str) -> str:
        """Returns the model that answers for `bot:NAME`; any other name of a model unchanged. Raises `RefusedError` for a bot
        without a model."""
        if not model.startswith(PREFIX) or (bot := self._runtime.bots.get(model.removeprefix(PREFIX))) is None:
            return model
        answering = bot.model or self._runtime.default_model or self._default
        if not answering:
            message = (
                f"the bot {model.removeprefix(PREFIX)!r} has no model; set bots.NAME.model or model in the settings"
            )
            raise RefusedError(problem(400, message, kind="invalid_request_error", param="model"))
        return answering.removeprefix(f"{self._runtime.provider.name}:")

    def must_run(self, caller: Caller, principal: Principal) -> bool:
        """Returns True for a request to a bot, and for one of a bot with a budget, which counts runs."""
        return caller.by_bot or self.has_budget(principal)

    def has_budget(self, principal: Principal) -> bool:
        """Returns True if the bot that makes a request, the default one if the request names none, has a budget."""
        with suppress(RequestError):  # a request of no bot
            principal = self._runtime.identified(principal)
        bot = None if principal.bot is None else self._runtime.bots.get(principal.bot)
        return bot is not None and bot.budget != DayBudget()

    def priced(self, envelope: Envelope) -> Mapping[str, msgspec.Raw]:
        """Returns the fields of a request to a bot with the model that answers, whose prices count."""
        model = self.model_of(_MODEL.decode(envelope.fields["model"]))
        return {**envelope.fields, "model": msgspec.Raw(msgspec.json.encode(model))}

    def entries(self, principal: Principal) -> Sequence[JsonObject]:
        """Returns the bots that a caller may ask, as the list of models shows them."""
        return [self._entry(name) for name in self._runtime.bots if principal.bot in (None, name)]

    def entry(self, model: str, principal: Principal) -> JsonObject | None:
        """Returns the entry of `bot:NAME`; None: it is the name of another model. Raises `RefusedError` as `caller_of`."""
        if not model.startswith(PREFIX):
            return None
        name = model.removeprefix(PREFIX)
        self._principal(name, principal)
        return self._entry(name)

    def _entry(self, name: str) -> JsonObject:
        entry: JsonObject = {"id": f"{PREFIX}{name}", "object": "model", "created": 0, "owned_by": "toolcaddie"}
        description = self._runtime.bots[name].description
        return {**entry, "description": description} if description else entry

    def _principal(self, name: str, principal: Principal) -> Principal:
        """Returns the principal as this bot."""
        if principal.bot not in (None, name):
            message = f"this key belongs to the bot {principal.bot!r}, so it may not ask the bot {name[:64]!r}"
            raise RefusedError(problem(403, message, kind="invalid_request_error", param="model", code="forbidden"))
        if name not in self._runtime.bots:
            advice = unknown_bot(name, self._runtime.bots)
            message = f"{advice}{'' if advice.endswith('?') else ';'} the bots are listed at /v1/models"
            code = "model_not_found"
            raise RefusedError(problem(404, message, kind="invalid_request_error", param="model", code=code))
        return replace(principal, bot=name)


def without_model(reply: ModelReply) -> ModelReply:
    """Returns a bot's reply without the name of the model behind it, so that the answer names the bot."""
    raw = reply.raw
    if raw is not None:
        raw = RawBody(wire=raw.wire, fields={name: value for name, value in raw.fields.items() if name != "model"})
    return replace(reply, model="", raw=raw)


def _name_in(raw: bytes | msgspec.Raw) -> str | None:
    """Returns the bot that the field `model` names; None: it names none, or is no string, which the wire refuses."""
    try:
        model = _MODEL.decode(raw)
    except (msgspec.DecodeError, UnicodeError):
        return None
    return model.removeprefix(PREFIX) if model.startswith(PREFIX) else None
