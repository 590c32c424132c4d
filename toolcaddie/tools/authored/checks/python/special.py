"""Names with a special meaning: of the interpreter's inner parts, frames, code objects and classes."""

from __future__ import annotations

import re
import unicodedata

_SPECIAL = re.compile(r"__\w+__|__\w+")
_FRAMES = re.compile(
    r"(gi|cr|ag)_(frame|code|await|yieldfrom|running)|tb_\w+|f_(back|builtins|code|globals|lasti|lineno|locals|trace)"
    r"|co_\w+|(func|im)_(globals|code|closure|dict|defaults|func|self|class|name)|mro|subclasses"
)
# fmt: off
_ORDINARY = frozenset({
    "__abs__", "__add__", "__bool__", "__contains__", "__doc__", "__eq__", "__float__", "__ge__", "__gt__", "__hash__",
    "__index__", "__int__", "__iter__", "__le__", "__len__", "__length_hint__", "__lt__", "__mul__", "__name__", "__ne__",
    "__neg__", "__next__", "__reversed__", "__round__", "__sub__",
})
# fmt: on
"""Special methods and texts that values have for computing, and that lead nowhere else."""


def is_special(name: str) -> bool:
    """Returns whether a name has the form of the interpreter's own names, also in another spelling that Python reads the same."""
    return _SPECIAL.fullmatch(unicodedata.normalize("NFKC", name)) is not None


def special_name(name: str) -> bool:
    """Returns whether an attribute of this name leads to the interpreter, a frame, a code object or a class's inner parts."""
    plain = unicodedata.normalize("NFKC", name)
    if plain in _ORDINARY:
        return False
    return _SPECIAL.fullmatch(plain) is not None or _FRAMES.fullmatch(plain) is not None
