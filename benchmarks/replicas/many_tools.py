"""More tools for the servers under load: definitions with the size of real ones, which the model never calls."""

from __future__ import annotations

import os

from toolcaddie.evaluation.simulation.scripts import generated_catalog
from toolcaddie.sources.definitions import DefinitionSource

COUNT = "REPLICAS_TOOLS"
"""Environment variable with the number of these tools."""
_SEED = 1


def source() -> DefinitionSource:
    return DefinitionSource("many", generated_catalog(int(os.environ[COUNT]), _SEED).tools, origin="many_tools")
