"""`python -m security hostile [--quick] [--json]`: runs one of the modules beside this file by its name."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

MODULES = ("kills", "hostile")


def main(words: list[str]) -> int:
    here = Path(__file__).parent
    names = [name for name in MODULES if (here / f"{name}.py").exists()]
    if not words or words[0] not in names:
        print(f"usage: python -m security {'|'.join(names)} [--quick] [--json]", file=sys.stderr)
        return 2
    return int(importlib.import_module(f"security.{words[0]}").main(words[1:]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
