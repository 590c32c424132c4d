"""Answers the methods of MCP that concern prompts and resources (`offers.py`). `server.py` connects them."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any

import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp_types.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS

from toolcaddie.core.client import AnswerPending, ClientError
from toolcaddie.core.content import BLOCKS, Text
from toolcaddie.core.control import Principal
from toolcaddie.doors.mcp.content import content_block
from toolcaddie.doors.mcp.offers import Offer, Offers
from toolcaddie.doors.mcp.questions import Context, MCPClient, Repeatable
from toolcaddie.doors.mcp.whole import whole
from toolcaddie.util.log import Logger

log = Logger(__name__)


class Offering:
    """Lists and reads the offers that a principal may use."""

    def __init__(
        self,
        offers: Offers,
        principal_of: Callable[[Context], Principal],
        client_of: Callable[[Context, Repeatable], MCPClient],
    ) -> None:
        self._offers = offers
        self._principal_of = principal_of
        self._client_of = client_of

    @property
    def handlers(self) -> Mapping[str, Any]:
        """The arguments of the package's server for what is offered."""
        handlers: dict[str, Any] = {}
        if self._offers.resources:
            handlers |= {
                "on_list_resources": self.list_resources,
                "on_list_resource_templates": self.list_templates,
                "on_read_resource": self.read_resource,
            }
        if self._offers.prompts:
            handlers |= {"on_list_prompts": self.list_prompts, "on_get_prompt": self.get_prompt}
        return {**handlers, "on_completion": self.complete} if handlers else {}

    async def list_prompts(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        principal = self._principal_of(context)
        return types.ListPromptsResult(
            prompts=[_listed_prompt(each) for each in self._offers.prompts if each.visible_to(principal)]
        )

    async def get_prompt(
        self, context: Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult | types.InputRequiredResult:
        offer = self._offers.prompt(params.name, self._principal_of(context))
        if offer is None:
            raise MCPError(INVALID_PARAMS, f"there is no prompt {params.name[:100]!r}")
        arguments = params.arguments or {}
        missing = [each.name for each in offer.arguments if each.required and each.name not in arguments]
        if missing:
            raise MCPError(INVALID_PARAMS, f"the prompt {offer.name} needs {', '.join(missing)}")
        known = {each.name for each in offer.arguments}
        client = self._client_of(context, params)
        value = await _answered(offer, {name: text for name, text in arguments.items() if name in known}, client)
        waiting = client.outcome()
        return waiting or types.GetPromptResult(description=offer.description or None, messages=_messages(value))

    async def list_resources(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        principal = self._principal_of(context)
        return types.ListResourcesResult(
            resources=[
                types.Resource(uri=each.uri, **_described(each))
                for each in self._offers.resources
                if not each.is_template and each.visible_to(principal)
            ]
        )

    async def list_templates(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        principal = self._principal_of(context)
        return types.ListResourceTemplatesResult(
            resource_templates=[
                types.ResourceTemplate(uri_template=each.uri, **_described(each))
                for each in self._offers.resources
                if each.is_template and each.visible_to(principal)
            ]
        )

    async def read_resource(
        self, context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult | types.InputRequiredResult:
        uri = str(params.uri)
        matched = self._offers.resource(uri, self._principal_of(context))
        if matched is None:
            raise MCPError(INVALID_PARAMS, "Resource not found", {"uri": uri})
        offer, arguments = matched
        client = self._client_of(context, params)
        value = await _answered(offer, arguments, client)
        return client.outcome() or types.ReadResourceResult(contents=[_contents(offer, uri, value)])

    async def complete(self, context: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
        principal, ref = self._principal_of(context), params.ref
        offers = self._offers.prompts if isinstance(ref, types.PromptReference) else self._offers.resources
        name = ref.name if isinstance(ref, types.PromptReference) else ref.uri
        offer = next((each for each in offers if name in (each.name, each.uri) and each.visible_to(principal)), None)
        values = [] if offer is None else list(offer.completions(params.argument.name, params.argument.value))
        return types.CompleteResult(completion=types.Completion(values=values, total=len(values), has_more=False))


async def _answered(offer: Offer, arguments: Mapping[str, str], client: MCPClient) -> Any:
    """Returns what a prompt or resource returns; None if it waits for the client."""
    try:
        return await whole(offer.value(arguments, client))
    except AnswerPending:
        return None
    except ClientError as error:
        client.outcome()
        raise MCPError(INVALID_PARAMS, str(error)) from error
    except Exception as error:  # somebody's function: the log gets the traceback, the client a sentence
        log.exception("offer_failed", offer=offer.name)
        raise MCPError(INTERNAL_ERROR, f"{offer.name} failed: {type(error).__name__}") from error


def _listed_prompt(offer: Offer) -> types.Prompt:
    return types.Prompt(
        name=offer.name,
        title=offer.title,
        description=offer.description or None,
        arguments=[types.PromptArgument(name=each.name, required=each.required) for each in offer.arguments],
    )


def _described(offer: Offer) -> dict[str, Any]:
    return {
        "name": offer.name,
        "title": offer.title,
        "description": offer.description or None,
        "mime_type": offer.mime_type or None,
    }


def _messages(value: Any) -> list[types.PromptMessage]:
    """Returns the messages of a prompt: of a text, a block, a pair (role, text), or a list of them."""
    items = value if isinstance(value, list) else [value]
    pairs = [item if isinstance(item, tuple) else ("user", item) for item in items]
    return [
        types.PromptMessage(
            role=role, content=content_block(item if isinstance(item, BLOCKS) else Text(text=str(item)))
        )
        for role, item in pairs
    ]


def _contents(offer: Offer, uri: str, value: Any) -> types.TextResourceContents | types.BlobResourceContents:
    mime_type = offer.mime_type or None
    if isinstance(value, bytes):
        return types.BlobResourceContents(uri=uri, mime_type=mime_type, blob=base64.b64encode(value).decode())
    return types.TextResourceContents(uri=uri, mime_type=mime_type, text=str(value))
