"""Checks of an embedder, which turns texts into vectors: in this process (`Embedder`) or on a server (`RemoteEmbedder`).

Part of the contract suite `EMBEDDER` (of `toolcaddie.testing.part_contracts`); the name of each function is printed as the
promise that it checks.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from toolcaddie.ports import Embedder, RemoteEmbedder
from toolcaddie.testing.contract import Checks, expect, expect_equal
from toolcaddie.testing.part_contracts.subject import Subject

AnyEmbedder = Embedder | RemoteEmbedder

CHECKS: Checks[Subject[AnyEmbedder]] = Checks()

_TEXTS = ["freeze a membership", "send an invoice", "Überweisung prüfen 会员", "x" * 5_000]


async def _vectors(embedder: AnyEmbedder, texts: list[str]) -> Any:
    if isinstance(embedder, RemoteEmbedder):
        try:
            return await embedder.fetch(texts)
        finally:
            await embedder.close()
    return embedder.embed(texts)


@CHECKS.add()
async def its_name_says_which_model_made_the_vectors(subject: Subject[AnyEmbedder]) -> None:
    embedder = subject.make()
    expect(isinstance(embedder.name, str) and bool(embedder.name), f"the name is {embedder.name!r}")


@CHECKS.add()
async def a_text_is_a_row_of_float32_of_the_size_it_says(subject: Subject[AnyEmbedder]) -> None:
    embedder = subject.make()
    vectors = await _vectors(embedder, _TEXTS)
    expect_equal(vectors.dtype, np.dtype("float32"), "the type of the vectors")
    expect_equal(vectors.shape, (len(_TEXTS), embedder.dimensions), "the shape of the vectors")


@CHECKS.add()
async def every_row_has_length_one_or_is_zero(subject: Subject[AnyEmbedder]) -> None:
    lengths = np.linalg.norm(await _vectors(subject.make(), _TEXTS), axis=1)
    wrong = [round(float(length), 4) for length in lengths if abs(length - 1) > 1e-3 and length != 0]
    expect(not wrong, f"rows have the lengths {wrong} instead of 1 or 0")


@CHECKS.add()
async def a_text_has_the_same_vector_whatever_stands_beside_it(subject: Subject[AnyEmbedder]) -> None:
    together = await _vectors(subject.make(), _TEXTS[:3])
    alone = await _vectors(subject.make(), _TEXTS[1:2])
    expect(
        bool(np.allclose(together[1], alone[0], atol=1e-3)),
        "the vector of a text changes when it is embedded without the other texts",
    )
