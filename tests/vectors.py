"""Catalogs whose vectors are in PostgreSQL, for the tests and what they need of the server."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from sqlalchemy import make_url

from tests import databases, postgresql
from toolcaddie.core.tool import Tool
from toolcaddie.runtime import Runtime
from toolcaddie.sources.definitions import DefinitionSource
from toolcaddie.storage.vector_index import PostgresVectors
from toolcaddie.testing import ScriptedProvider, say

Floats = npt.NDArray[np.float32]

MOST = 20
"""More tools than this are in the database."""
MANY = 5_200
"""So many that only those near to a request are fetched."""
WANTED = Tool(name="stop_membership", description="Freeze a membership.", input_schema={})
ASKED = "pause it please"
"""Shares no word with that tool."""

_MEANS = {"pause": "freeze", "invoice": "bill"}
_SMALL = {"it", "please", "a", "the", "of"}


class Words:
    """An embedder: a text is the sum of random directions, one for each of its words, and two words have the same."""

    dimensions = 128
    languages = None

    def __init__(self, name: str = "words") -> None:
        self.name = name
        self.asked: list[str] = []

    def embed(self, texts: Sequence[str]) -> Floats:
        self.asked += texts
        rows = [sum((_direction(word) for word in _words(text)), np.zeros(128)) for text in texts]
        sums = np.array(rows, dtype=np.float32).reshape(-1, 128)
        return np.asarray(sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-9), dtype=np.float32)


def _words(text: str) -> list[str]:
    return [
        _MEANS.get(word, word) for word in text.lower().replace(".", "").replace(":", "").split() if word not in _SMALL
    ]


@cache
def _direction(word: str) -> npt.NDArray[np.float64]:
    seed = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest())
    return np.random.default_rng(seed).standard_normal(Words.dimensions)


def reports(count: int, first: int = 0) -> list[Tool]:
    return [
        Tool(name=f"report_{n}", description=f"Figures {n} and {n // 7} of area {n // 50}.", input_schema={})
        for n in range(first, first + count)
    ]


def runtime(url: str | None, tools: Sequence[Tool], embedder: Any = None, **options: Any) -> Runtime:
    """A process with these tools, whose vectors are in the database at `url` (None: in its memory)."""
    return Runtime(
        provider=ScriptedProvider([say("done")] * 50),
        sources=[DefinitionSource("work", list(tools), origin="a test")],
        embedder=embedder or Words(),
        vector_index=None if url is None else PostgresVectors(url),
        **{"most_in_memory": MOST, "patience": 60.0, **options},
    )


def sent(made: Runtime, turn: int = -1) -> list[str]:
    provider: Any = made.provider
    return [definition["function"]["name"] for definition in provider.requests[turn].tools]


@contextmanager
def schema() -> Iterator[str]:
    """The URL of an empty schema of a server whose extension is in another one, as it is where an administrator installed it."""
    databases.change(databases.server(), "CREATE EXTENSION IF NOT EXISTS vector SCHEMA public")
    with postgresql.schema(databases.server()) as url:
        yield url


@contextmanager
def without_extension() -> Iterator[str]:
    """The URL of a new database without the extension, as a user who may not install it."""
    admin = databases.server()
    postgresql.do(admin, "CREATE ROLE plain LOGIN PASSWORD 'plain'", "CREATE DATABASE plain TEMPLATE template0")
    url = make_url(admin).set(database="plain")
    postgresql.do(url.render_as_string(hide_password=False), "GRANT CREATE, USAGE ON SCHEMA public TO plain")
    try:
        yield url.set(username="plain", password="plain").render_as_string(hide_password=False)
    finally:
        postgresql.do(admin, "DROP DATABASE plain WITH (FORCE)", "DROP ROLE plain")
