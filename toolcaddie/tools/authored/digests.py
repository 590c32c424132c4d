"""The digest of a tool as a person names it who has read exactly that state."""

from __future__ import annotations

from toolcaddie.core.errors import RequestError
from toolcaddie.tools.authored.values import AuthoredTool


def check_digest(tool: AuthoredTool, digest: str) -> None:
    """Raises `RequestError` unless this is the whole digest of the tool as it is now."""
    if tool.digest == digest:
        return
    name = tool.definition.name
    if digest and tool.digest.startswith(digest):
        problem = f"{digest} is only the beginning of the digest of {name}; write the whole digest"
    else:
        problem = f"{name} is not what you read: its digest is {tool.digest}, not {digest[:64]}; read it again"
    raise RequestError(problem, param="digest", code="changed")
