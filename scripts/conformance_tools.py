"""The tools, prompts and resources that the MCP conformance suite calls: their names, texts and forms are the suite's.

`scripts/conformance.py` serves them with `toolcaddie serve --catalog python:scripts.conformance_tools`.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Sequence
from typing import Any

from toolcaddie import tool
from toolcaddie.core.catalog import Category
from toolcaddie.core.client import CallerClient, Elicit, Roots, Sample
from toolcaddie.core.content import Audio, Image, Resource, Text
from toolcaddie.core.run import RunContext
from toolcaddie.core.tool import Tool, ToolResult
from toolcaddie.doors.mcp.offers import prompt, resource

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
WAV = "UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA="
_PAUSE = 0.05
_NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
_CONFIRM = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}


def _client(context: RunContext) -> CallerClient:
    assert context.client is not None, "these tools are called through MCP"
    return context.client


@tool(read_only=True)
def test_simple_text() -> str:
    """Return a text."""
    return "This is a simple text response for testing."


@tool(read_only=True)
def test_image_content() -> Image:
    """Return an image."""
    return Image(data=PNG, mime_type="image/png")


@tool(read_only=True)
def test_audio_content() -> Audio:
    """Return a sound."""
    return Audio(data=WAV, mime_type="audio/wav")


@tool(read_only=True)
def test_embedded_resource() -> Resource:
    """Return an embedded resource."""
    return Resource(
        uri="test://embedded-resource", mime_type="text/plain", text="This is an embedded resource content."
    )


@tool(read_only=True)
def test_multiple_content_types() -> list[Any]:
    """Return a text, an image and a resource."""
    return [
        Text(text="Multiple content types test:"),
        Image(data=PNG, mime_type="image/png"),
        Resource(uri="test://mixed-content-resource", mime_type="application/json", text='{"test":"data","value":123}'),
    ]


@tool(read_only=True)
def test_error_handling() -> str:
    """Fail."""
    raise ValueError("This tool intentionally returns an error for testing")


@tool(read_only=True)
async def test_tool_with_logging(context: RunContext) -> str:
    """Write three lines to the client's log."""
    client = _client(context)
    for line in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await client.log("info", line)
        await asyncio.sleep(_PAUSE)
    return "Logged three lines."


@tool(read_only=True)
async def test_logging_tool(context: RunContext) -> str:
    """Write a line to the client's log."""
    await _client(context).log("info", "A line for clients that want it.")
    return "Logged a line."


@tool(read_only=True)
async def test_tool_with_progress(context: RunContext) -> str:
    """Report progress three times."""
    for done in (0, 50, 100):
        await context.report_progress(done, 100)
        await asyncio.sleep(_PAUSE)
    return "Reported progress three times."


@tool(read_only=True)
async def test_reconnection(context: RunContext) -> str:
    """Close the connection before the answer."""
    await _client(context).release()
    await asyncio.sleep(_PAUSE)
    return "The answer came after the connection was closed."


@tool
async def test_sampling(prompt: str, context: RunContext) -> str:
    """Ask the client's model."""
    answers = await _client(context).ask({"answer": Sample(text=prompt, max_tokens=100)})
    return f"LLM response: {_said(answers['answer'])}"


@tool
async def test_missing_capability(context: RunContext) -> str:
    """Ask the client's model, which not every client has."""
    return await test_sampling("Which capability is this?", context)


@tool
async def test_elicitation(message: str, context: RunContext) -> str:
    """Ask the person at the client."""
    schema = {
        "type": "object",
        "properties": {
            "username": {"type": "string", "description": "User's response"},
            "email": {"type": "string", "description": "User's email address"},
        },
        "required": ["username", "email"],
    }
    answers = await _client(context).ask({"form": Elicit(message=message, schema=schema)})
    return f"User response: {_described(answers['form'])}"


@tool
async def test_streaming_elicitation(context: RunContext) -> str:
    """Report progress, then ask the person at the client."""
    await context.report_progress(1, 2)
    answers = await _client(context).ask({"user_name": Elicit(message="What is your name?", schema=_NAME)})
    return f"User response: {_described(answers['user_name'])}"


@tool
async def test_elicitation_sep1034_defaults(context: RunContext) -> str:
    """Ask with a form whose fields have defaults."""
    properties = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }
    return await _completed(context, properties)


@tool
async def test_elicitation_sep1330_enums(context: RunContext) -> str:
    """Ask with a form whose fields are choices."""
    options = ["option1", "option2", "option3"]
    titled = [
        {"const": "value1", "title": "First Option"},
        {"const": "value2", "title": "Second Option"},
        {"const": "value3", "title": "Third Option"},
    ]
    properties = {
        "untitledSingle": {"type": "string", "enum": options},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }
    return await _completed(context, properties)


async def _completed(context: RunContext, properties: dict[str, Any]) -> str:
    form = Elicit(message="Please fill in the form", schema={"type": "object", "properties": properties})
    answers = await _client(context).ask({"form": form})
    return f"Elicitation completed: {_described(answers['form'])}"


@tool
async def test_input_required_result_elicitation(context: RunContext) -> str:
    """Ask for a name."""
    answers = await _client(context).ask({"user_name": Elicit(message="What is your name?", schema=_NAME)})
    return f"Hello, {answers['user_name'].get('content', {}).get('name', 'stranger')}!"


@tool
async def test_input_required_result_sampling(context: RunContext) -> str:
    """Ask the client's model for a capital."""
    question = Sample(text="What is the capital of France?", max_tokens=100)
    answers = await _client(context).ask({"capital_question": question})
    return _said(answers["capital_question"])


@tool
async def test_input_required_result_list_roots(context: RunContext) -> str:
    """Ask for the client's folders."""
    answers = await _client(context).ask({"client_roots": Roots()})
    return f"Roots: {', '.join(root['uri'] for root in answers['client_roots']['roots'])}"


@tool
async def test_input_required_result_request_state(context: RunContext) -> str:
    """Ask for a confirmation, with a note that has to come back."""
    client = _client(context)
    client.notes.setdefault("asked", "before")
    await client.ask({"confirm": Elicit(message="Please confirm", schema=_CONFIRM)})
    return "state-ok" if client.notes["asked"] == "before" else "the note is lost"


@tool
async def test_input_required_result_tampered_state(context: RunContext) -> str:
    """Ask for a confirmation, with a state that nobody may change."""
    return await test_input_required_result_request_state(context)


@tool
async def test_input_required_result_multiple_inputs(context: RunContext) -> str:
    """Ask three questions at once."""
    answers = await _client(context).ask(
        {
            "user_name": Elicit(message="What is your name?", schema=_NAME),
            "greeting": Sample(text="Generate a greeting", max_tokens=50),
            "client_roots": Roots(),
        }
    )
    return f"Answered: {', '.join(sorted(answers))}"


@tool
async def test_input_required_result_multi_round(context: RunContext) -> str:
    """Ask two questions, one after the other."""
    client = _client(context)
    first = await client.ask({"step1": Elicit(message="Step 1: What is your name?", schema=_NAME)})
    color = {"type": "object", "properties": {"color": {"type": "string"}}, "required": ["color"]}
    second = await client.ask({"step2": Elicit(message="Step 2: What is your favorite color?", schema=color)})
    return f"{_described(first['step1'])}, {_described(second['step2'])}"


@tool
async def test_input_required_result_capabilities(context: RunContext) -> str:
    """Ask whatever the client can answer."""
    client = _client(context)
    questions = {
        "user_name": Elicit(message="What is your name?", schema=_NAME),
        "greeting": Sample(text="Generate a greeting", max_tokens=50),
        "client_roots": Roots(),
    }
    answers = await client.ask({key: each for key, each in questions.items() if client.can(each.needs)})
    return f"Answered: {', '.join(sorted(answers))}"


def _said(answer: Any) -> str:
    content = answer["content"]
    return str(content.get("text", "")) if isinstance(content, dict) else json.dumps(content)


def _described(answer: Any) -> str:
    return f"action={answer['action']}, content={json.dumps(answer.get('content', {}))}"


class SchemaSource:
    """One tool whose schema uses keywords of JSON Schema 2020-12 that no Python signature makes."""

    name = "schema"
    revision = 1

    def tools(self) -> Sequence[Tool]:
        schema = {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "$defs": {
                "address": {
                    "$anchor": "addressDef",
                    "type": "object",
                    "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
                }
            },
            "properties": {
                "name": {"type": "string"},
                "address": {"$ref": "#/$defs/address"},
                "contactMethod": {"type": "string", "enum": ["phone", "email"]},
                "phone": {"type": "string"},
                "email": {"type": "string"},
            },
            "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
            "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
            "then": {"required": ["phone"]},
            "else": {"required": ["email"]},
            "additionalProperties": False,
        }
        region = {"type": "string", "x-mcp-header": "Region"}
        header = {
            "type": "object",
            "properties": {"region": region, "query": {"type": "string"}},
            "required": ["region"],
        }
        return [
            Tool(name="json_schema_2020_12_tool", description="Take an address.", input_schema=schema),
            Tool(name="test_custom_headers", description="Take an argument that is a header too.", input_schema=header),
        ]

    def categories(self) -> Sequence[Category]:
        return []

    async def call_tool(self, tool: Tool, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        return ToolResult(content=json.dumps(arguments))


schema_source = SchemaSource()


@prompt
def test_simple_prompt() -> str:
    """A prompt without arguments."""
    return "This is a simple prompt for testing."


@prompt(complete={"arg1": ["paris", "park", "party"], "arg2": ["world"]})
def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    """A prompt with two arguments."""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@prompt
def test_prompt_with_embedded_resource(resourceUri: str) -> list[Any]:
    """A prompt with a resource in it."""
    text = "Embedded resource content for testing."
    return [Resource(uri=resourceUri, mime_type="text/plain", text=text), "Please process the embedded resource above."]


@prompt
def test_prompt_with_image() -> list[Any]:
    """A prompt with an image in it."""
    return [Image(data=PNG, mime_type="image/png"), "Please analyze the image above."]


@prompt
async def test_input_required_result_prompt(client: CallerClient) -> str:
    """A prompt that asks the person at the client."""
    schema = {"type": "object", "properties": {"context": {"type": "string"}}, "required": ["context"]}
    answers = await client.ask({"user_context": Elicit(message="What context should the prompt use?", schema=schema)})
    return f"Use this context: {answers['user_context'].get('content', {}).get('context', '')}"


@resource("test://static-text", mime_type="text/plain")
def static_text() -> str:
    """A text that never changes."""
    return "This is the content of the static text resource."


@resource("test://static-binary", mime_type="image/png")
def static_binary() -> bytes:
    """An image that never changes."""
    return base64.b64decode(PNG)


@resource("test://template/{id}/data", mime_type="application/json", complete={"id": ["123"]})
def template_data(id: str) -> str:  # noqa: A002  the name in the suite's template
    """The data of one id."""
    return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"}, separators=(",", ":"))


@resource("test://watched-resource", mime_type="text/plain")
def watched() -> str:
    """A text to which clients subscribe."""
    return "This is the content of the watched resource."
