"""Names and page sizes of the meta tools: the tools that the engine itself offers to find and call other tools."""

from __future__ import annotations

REQUEST_MORE_TOOLS = "request_more_tools"
EXECUTE_TOOL = "execute_tool"
LIST_TOOLS = "list_tools"
SEARCH_TOOLS = "search_tools"
GET_TOOL_SCHEMA = "get_tool_schema"
RESPOND = "respond"
READ_RESULT = "read_result"
RUN_PROGRAM = "run_program"

META_SOURCE = "meta"
META_TOOLS = frozenset(
    {REQUEST_MORE_TOOLS, EXECUTE_TOOL, LIST_TOOLS, SEARCH_TOOLS, GET_TOOL_SCHEMA, RESPOND, RUN_PROGRAM}
)

LOOKING = frozenset({REQUEST_MORE_TOOLS, LIST_TOOLS, SEARCH_TOOLS, GET_TOOL_SCHEMA})
"""Meta tools with which the model only looks for tools."""

PAGE_SIZE = 50
"""Default number of tools per page."""
READ_LIMIT = 20_000
"""The largest number of characters that one call of `read_result` returns: less than 100 KB in any encoding."""
