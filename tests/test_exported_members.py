"""The public names are the ones we mean, sorted, and each can be fetched."""

from __future__ import annotations

import importlib
import subprocess
import sys

import toolcaddie


def test_every_public_name_can_be_imported_from_the_package() -> None:
    for name in toolcaddie.__all__:
        member = getattr(toolcaddie, name)
        home = getattr(member, "__module__", None)
        if home is not None:
            assert home.startswith("toolcaddie."), name
            assert importlib.import_module(home)


def test_the_names_are_sorted_and_nothing_else_is_public() -> None:
    assert sorted(toolcaddie.__all__) == sorted(set(toolcaddie.__all__))
    assert set(toolcaddie.__all__) == set(toolcaddie._HOMES)
    assert sorted(toolcaddie._HOMES) == list(toolcaddie._HOMES)


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = "import sys, toolcaddie; print(sorted({'aiohttp', 'sqlalchemy', 'pydantic', 'numpy'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
