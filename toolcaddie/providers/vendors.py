"""The vendors that are known here, by name: the one place that knows whose key is where and whose models are called how."""

from __future__ import annotations

from collections.abc import Mapping

from toolcaddie.providers import anthropic, gemini, openai_chat, openai_responses
from toolcaddie.providers.compatible import SERVICES
from toolcaddie.providers.vendor import Vendor

VENDORS: Mapping[str, Vendor] = {
    vendor.name: vendor
    for vendor in (
        openai_chat.from_settings,
        openai_responses.from_settings,
        anthropic.from_settings,
        gemini.from_settings,
        *SERVICES.values(),
    )
}

_FAMILIES = sorted(
    ((beginning, vendor.name) for vendor in VENDORS.values() for beginning in vendor.families),
    key=lambda family: -len(family[0]),  # gpt-oss before gpt-
)


def vendor_of_model(model: str) -> str | None:
    """Returns the name of the vendor that serves models of such a name; None: it is not known."""
    return next((vendor for beginning, vendor in _FAMILIES if model.startswith(beginning)), None)
