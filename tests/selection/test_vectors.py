from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import numpy.typing as npt
import pytest

from toolcaddie.selection.index.vectors import NEAREST, Vectors

Floats = npt.NDArray[np.float32]


def rows(count: int, *, seed: int = 0) -> Floats:
    """Clustered, as texts are."""
    random = np.random.default_rng(seed)
    centres = random.normal(size=(20, 64)).astype(np.float32)
    made = centres[random.integers(0, 20, count)] + random.normal(size=(count, 64)).astype(np.float32)
    return np.asarray(made / np.linalg.norm(made, axis=1, keepdims=True), dtype=np.float32)


@pytest.fixture
def graphed() -> Vectors:
    """More rows than are compared one by one."""
    if find_spec("usearch") is None:  # not imported here: `nearest` knows the order that crashes nothing
        pytest.skip("pip install 'toolcaddie[vectors]' brings the graph")
    vectors = Vectors(rows(3_000), most=1_000)
    vectors.wait()
    return vectors


def test_a_row_is_its_own_nearest_and_every_row_has_its_cosine() -> None:
    matrix = rows(50)
    found = Vectors(matrix).cosines(matrix[7])
    assert int(found.argmax()) == 7
    assert found == pytest.approx(matrix @ matrix[7], abs=1e-6)


def test_several_queries_are_answered_at_once_as_one_by_one() -> None:
    matrix = rows(50)
    vectors = Vectors(matrix)
    together = vectors.cosines(matrix[:3])
    assert together.shape == (3, 50)
    for place in range(3):
        assert together[place] == pytest.approx(vectors.cosines(matrix[place]), abs=1e-6)


def test_a_hidden_row_says_nothing() -> None:
    matrix = rows(50)
    mask = np.arange(50) != 7
    found = Vectors(matrix).cosines(matrix[7], mask)
    assert found[7] == 0.0
    assert found[mask] == pytest.approx((matrix @ matrix[7])[mask], abs=1e-6)


def test_no_rows_are_no_cosines() -> None:
    assert Vectors(np.zeros((0, 64), dtype=np.float32)).cosines(np.ones(64, dtype=np.float32)).shape == (0,)


def test_a_graph_finds_the_nearest_with_their_exact_cosines_and_nothing_of_the_rest(graphed: Vectors) -> None:
    matrix, query = rows(3_000), rows(1, seed=1)[0]
    exact = matrix @ query
    found = graphed.cosines(query)
    best = np.argsort(-exact)[:20]
    assert found[best] == pytest.approx(exact[best], abs=1e-6)
    assert np.count_nonzero(found) <= NEAREST


def test_the_nearest_being_hidden_leaves_their_places_to_visible_ones(graphed: Vectors) -> None:
    matrix, query = rows(3_000), rows(1, seed=1)[0]
    exact = matrix @ query
    mask = np.ones(3_000, dtype=np.bool_)
    mask[np.argsort(-exact)[:600]] = False  # more than a graph is asked for
    found = graphed.cosines(query, mask)
    best = np.argsort(np.where(mask, -exact, np.inf))[:20]
    assert not found[~mask].any()
    assert found[best] == pytest.approx(exact[best], abs=1e-6)


def test_where_few_are_visible_each_of_them_has_its_cosine(graphed: Vectors) -> None:
    matrix, query = rows(3_000), rows(1, seed=1)[0]
    mask = np.zeros(3_000, dtype=np.bool_)
    mask[::100] = True
    assert graphed.cosines(query, mask)[mask] == pytest.approx((matrix @ query)[mask], abs=1e-6)


def test_without_the_package_all_rows_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "usearch.index", None)
    matrix = rows(300)
    vectors = Vectors(matrix, most=100)
    vectors.wait()
    assert vectors.cosines(matrix[0]) == pytest.approx(matrix @ matrix[0], abs=1e-6)


def test_a_sentence_model_can_be_loaded_after_a_graph_was_built() -> None:
    """Loaded after usearch, onnxruntime ended the process."""
    code = (
        "import numpy as np\n"
        "from toolcaddie.selection.index.nearest import graph_of\n"
        "graph = graph_of(np.eye(64, dtype=np.float32))\n"
        "import onnxruntime\n"
        "print(sorted(graph.nearest(np.eye(64, dtype=np.float32)[3], 1)))"
    )
    if find_spec("usearch") is None or find_spec("onnxruntime") is None:
        pytest.skip("needs 'toolcaddie[minilm,vectors]'")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "3" in done.stdout


def test_rows_that_change_have_the_cosines_of_a_matrix_made_anew() -> None:
    matrix, query, choose = rows(300), rows(1, seed=1)[0], np.random.default_rng(2)
    vectors = Vectors(matrix)
    for number in range(120):
        gone = int(choose.integers(0, len(matrix)))
        newcomers = rows(1 + number % 2, seed=3 + number)
        origin = np.concatenate([np.delete(np.arange(len(matrix)), gone), np.full(len(newcomers), -1)])
        vectors = vectors.changed(origin, newcomers)
        matrix = np.concatenate([np.delete(matrix, gone, axis=0), newcomers])
        assert len(vectors) == len(matrix)
        assert vectors.cosines(query) == pytest.approx(matrix @ query, abs=1e-6)
        assert np.array_equal(vectors.at(np.arange(len(matrix))), matrix)
    mask = choose.random(len(matrix)) < 0.5
    assert vectors.cosines(query, mask) == pytest.approx(np.where(mask, matrix @ query, 0.0), abs=1e-6)


def test_a_graph_serves_the_rows_that_stay_and_rows_that_come_later_are_compared(graphed: Vectors) -> None:
    matrix, query, later = rows(3_000), rows(1, seed=1)[0], rows(40, seed=5)
    exact = matrix @ query
    gone = np.argsort(-exact)[:30]
    origin = np.concatenate([np.delete(np.arange(3_000), gone), np.full(40, -1)])
    found = graphed.changed(origin, later).cosines(query)
    expected = np.concatenate([np.delete(matrix, gone, axis=0), later]) @ query
    best = np.argsort(-expected)[:20]
    assert found[best] == pytest.approx(expected[best], abs=1e-6)
    assert found[-40:] == pytest.approx(later @ query, abs=1e-6)
