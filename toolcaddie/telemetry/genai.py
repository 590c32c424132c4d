"""Names, units and buckets of OpenTelemetry's conventions for generative AI, and of Toolcaddie's own attributes.

The conventions are copied because the package that defines them calls them incubating and may move them.
"""

from __future__ import annotations

from collections.abc import Mapping

GEN_AI_OPERATION = "gen_ai.operation.name"
GEN_AI_PROVIDER = "gen_ai.provider.name"
GEN_AI_AGENT_NAME = "gen_ai.agent.name"
GEN_AI_CONVERSATION = "gen_ai.conversation.id"
GEN_AI_REQUEST_MODEL = "gen_ai.request.model"
GEN_AI_RESPONSE_MODEL = "gen_ai.response.model"
GEN_AI_FINISH_REASONS = "gen_ai.response.finish_reasons"
GEN_AI_INPUT_TOKENS = "gen_ai.usage.input_tokens"
GEN_AI_OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
GEN_AI_CACHED_TOKENS = "gen_ai.usage.cache_read.input_tokens"
GEN_AI_WRITTEN_TOKENS = "gen_ai.usage.cache_creation.input_tokens"
GEN_AI_REASONING_TOKENS = "gen_ai.usage.reasoning.output_tokens"
GEN_AI_TOKEN_TYPE = "gen_ai.token.type"
GEN_AI_TOOL_NAME = "gen_ai.tool.name"
GEN_AI_TOOL_CALL_ID = "gen_ai.tool.call.id"
GEN_AI_TOOL_TYPE = "gen_ai.tool.type"
ERROR_TYPE = "error.type"

RUN_ID = "toolcaddie.run.id"
PRESET = "toolcaddie.preset"
STATUS = "toolcaddie.status"
ROUND = "toolcaddie.round"
CALL_NUMBER = "toolcaddie.call.number"
SOURCE = "toolcaddie.source"
CATALOG_TOOLS = "toolcaddie.tools.catalog"
SELECTED_TOOLS = "toolcaddie.tools.selected"
SENT_TOOLS = "toolcaddie.tools.sent"
ADDED_TOOLS = "toolcaddie.tools.added"
CACHED_RESULT = "toolcaddie.result.cached"
ATTEMPT_HOW = "toolcaddie.attempt.how"
ATTEMPT_OUTCOME = "toolcaddie.attempt.outcome"

INVOKE_AGENT, CHAT, EXECUTE_TOOL = "invoke_agent", "chat", "execute_tool"

OPERATION_BUCKETS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
"""Upper bounds that the conventions recommend for the durations of model calls and tool calls, in seconds."""
AGENT_BUCKETS = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4, 204.8, 409.6)
"""Those for the durations of runs, in seconds."""
TOKEN_BUCKETS = tuple(4**power for power in range(14))
"""Those for numbers of tokens."""

_PROVIDERS: Mapping[str, str] = {
    "azure": "azure.ai.openai",
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "openai-responses": "openai",
    "xai": "x_ai",
}
"""The conventions' names of providers that Toolcaddie calls otherwise."""


def provider_name(name: str) -> str:
    """Returns the name of a provider as the conventions write it."""
    return _PROVIDERS.get(name, name)
