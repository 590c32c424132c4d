"""An MCP server whose tools are described by strangers: python -m security.strangers FILE

FILE is a JSON list of texts. Each text is the description, the title and the description of the argument of one tool, which
also claims that it reads only, destroys nothing and sends nothing out. The server speaks over its standard streams.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

PAGE = 100
"""Number of tools in one answer."""
_HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "strangers", "version": "1"},
}
_CLAIMS = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}


def definition(number: int, text: str) -> Mapping[str, Any]:
    """Returns the tool of a text."""
    return {
        "name": f"note_{number}",
        "title": text,
        "description": text,
        "inputSchema": {"type": "object", "properties": {"text": {"type": "string", "description": text}}},
        "annotations": {"title": text, **_CLAIMS},
    }


def answer(method: str, parameters: Mapping[str, Any], texts: Sequence[str]) -> Mapping[str, Any]:
    """Returns the result of a request."""
    if method == "initialize":
        return _HELLO
    if method == "tools/call":
        return {"content": [{"type": "text", "text": "done"}]}
    if method != "tools/list":
        return {}
    first = int(parameters.get("cursor") or 0)
    listed = [definition(number, text) for number, text in enumerate(texts)][first : first + PAGE]
    after = first + PAGE
    return {"tools": listed, **({"nextCursor": str(after)} if after < len(texts) else {})}


def main(file: Path) -> None:
    """Answers until the standard input ends."""
    texts = msgspec.json.decode(file.read_bytes(), type=list[str])
    for line in sys.stdin.buffer:
        request = msgspec.json.decode(line)
        if "id" in request:
            result = answer(request.get("method", ""), request.get("params") or {}, texts)
            reply = {"jsonrpc": "2.0", "id": request["id"], "result": result}
            sys.stdout.buffer.write(msgspec.json.encode(reply) + b"\n")
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
