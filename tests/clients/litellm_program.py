"""litellm as a client library. It wants an older `openai` than the other clients, so it runs in an environment of its own:

    python litellm_program.py SCENARIO BASE_URL

prints as JSON what the client saw. `test_litellm.py` says what that must be.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import litellm
from pydantic import BaseModel

MESSAGES = [{"role": "user", "content": "what is the weather in Oslo?"}]
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}
OFFICE = [
    {"type": "function", "function": {"name": f"{verb}_{noun}", "description": f"{verb} {noun}", "parameters": {}}}
    for verb in ("create", "delete", "list", "update", "approve", "export", "archive", "print", "merge", "share")
    for noun in ("invoice", "shipment", "customer", "ticket", "contract", "supplier", "vehicle", "campaign", "payroll")
]


class Weather(BaseModel):
    city: str
    degrees: int


def ask(base_url: str, messages: list[Any] = MESSAGES, **options: Any) -> Any:
    return litellm.completion(
        model="gpt-test",
        custom_llm_provider="openai",
        base_url=base_url,
        api_key="unused",
        messages=messages,
        **options,
    )


def plain(base_url: str) -> Any:
    answer = ask(base_url)
    return {"text": answer.choices[0].message.content, "tokens": answer.usage.total_tokens}


def stream(base_url: str) -> Any:
    chunks = list(ask(base_url, tools=[*OFFICE, WEATHER], stream=True, stream_options={"include_usage": True}))
    whole = litellm.stream_chunk_builder(chunks)
    return {"text": whole.choices[0].message.content, "tokens": whole.usage.total_tokens}


def tool(base_url: str) -> Any:
    tools = [*OFFICE, WEATHER]
    message = ask(base_url, tools=tools).choices[0].message
    results = [{"role": "tool", "tool_call_id": each.id, "content": "rain"} for each in message.tool_calls]
    answer = ask(base_url, [*MESSAGES, message, *results], tools=tools)
    calls = [[each.function.name, json.loads(each.function.arguments)] for each in message.tool_calls]
    return {"calls": calls, "text": answer.choices[0].message.content}


def streamed_calls(base_url: str) -> Any:
    chunks = list(ask(base_url, tools=[*OFFICE, WEATHER], stream=True))
    calls = litellm.stream_chunk_builder(chunks).choices[0].message.tool_calls
    return {"calls": [[each.function.name, json.loads(each.function.arguments)] for each in calls]}


def turns(base_url: str) -> Any:
    messages: list[Any] = []
    for text in ("create an invoice", "the weather in Oslo?", "archive the ticket"):
        messages.append({"role": "user", "content": text})
        messages.append(ask(base_url, messages, tools=[*OFFICE, WEATHER]).choices[0].message)
    return {"text": messages[-1].content}


def structured(base_url: str) -> Any:
    answer = ask(base_url, tools=OFFICE, response_format=Weather)
    return {"answer": Weather.model_validate_json(answer.choices[0].message.content).model_dump()}


def retried(base_url: str) -> Any:
    return {"text": ask(base_url, tools=OFFICE, num_retries=2).choices[0].message.content}


def refused(base_url: str) -> Any:
    try:
        ask(base_url, tools=OFFICE)
    except litellm.BadRequestError as error:
        return {"error": type(error).__name__, "told": str(error)}
    return {}


def left(base_url: str) -> Any:
    answer = ask(base_url, tools=OFFICE, stream=True)
    next(answer)
    answer.completion_stream.close()
    return {}


def weather_choice(base_url: str) -> Any:
    answer = ask(
        base_url, tools=[*OFFICE, WEATHER], tool_choice={"type": "function", "function": {"name": "get_weather"}}
    )
    return {"calls": [each.function.name for each in answer.choices[0].message.tool_calls]}


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](sys.argv[2])))
