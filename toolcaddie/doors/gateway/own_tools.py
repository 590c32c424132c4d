"""Finds the tools that belong to a client itself, beside those of its MCP servers: `read` and `bash` of a coding agent.

`essential.py` sends them with every request, because such a client cannot work without them. A group is a set of tools whose
names begin with the same word. Clients prefix the tools of an MCP server with its name, so these form large groups.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

_LARGE = 8
"""The smallest number of tools in a large group."""
_SMALLEST, _LARGEST = 3, 24
"""The smallest and largest number of tools that a client has itself."""
_PREFIXES = 3
"""The largest number of large groups beside which tools of any name count as the client's own. With more of them, the words at
the beginning are probably verbs (`create_order`, `list_orders`), so the client's own tools must have names of one word."""
_FIRST_WORD = re.compile(r"mcp__.+?__|[A-Za-z0-9]+?(?:[_.:/-]+|$)")


def own_tools(names: Sequence[str]) -> Sequence[str]:
    """Returns the names of the client's own tools; none if the names do not show them clearly."""
    words = {name: word.group() if (word := _FIRST_WORD.match(name)) else name for name in names}
    sizes = Counter(words.values())
    own = [name for name in names if sizes[words[name]] < _LARGE]
    if not _SMALLEST <= len(own) <= _LARGEST or len(own) * 2 > len(names):
        return ()
    few_groups = sum(size >= _LARGE for size in sizes.values()) <= _PREFIXES
    one_word = sum(words[name] == name for name in own) * 2 >= len(own)
    return own if few_groups or one_word else ()
