"""Wrong settings of the tools in the box and of the sandbox are refused when the file is read, with what to write instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolcaddie.app.settings import load_settings
from toolcaddie.core.errors import ConfigError
from toolcaddie.parts import Parts
from toolcaddie.registry import Registry

HOST = "such as example.com or *.example.com: no https://, port or path"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            'type = "web"\n[source.fetch]\nprivate_hosts = ["127.0.0.1"]',
            "with a host and its port, such as 127.0.0.1:8080",
        ),
        ('type = "web"\n[source.fetch]\ndomains = ["https://example.com"]', HOST),
        ('type = "web"\n[source.fetch]\nports = [99999]', "write a whole number from 1 to 65535"),
        ('type = "exec"\nfolder_per = ["user"]', 'write "tenant", "bot", "person"'),
        ('type = "authored"\ntypes = ["ruby"]', 'write "python", '),
        ('type = "exec"\negress = ["https://pypi.org"]', HOST),
        ('type = "exec"\negress = ["pypi.org/simple"]', HOST),
        ('type = "exec"\nprocesses = 1', "write a whole number from 4"),
    ],
)
def test_a_wrong_value_of_a_source_says_what_to_write(tmp_path: Path, text: str, words: str) -> None:
    assert words in _complaint(tmp_path, f"[[source]]\n{text}")


@pytest.mark.parametrize(
    "line", ["processes = 0", "processes = 2", "open_files = 1", "memory_bytes = 1", "disk_bytes = 1"]
)
def test_a_sandbox_in_which_nothing_could_start_is_refused(tmp_path: Path, line: str) -> None:
    assert "write a whole number from " in _complaint(tmp_path, f"[sandbox]\n{line}")


def test_the_keys_of_a_part_include_its_type(tmp_path: Path) -> None:
    assert "seconds, type, uid" in _complaint(tmp_path, "[sandbox]\nnonsense = 1")


@pytest.mark.parametrize(
    ("source", "setting"),
    [("exec", {"workdir": "/"}), ("files", {"base_path": "/etc"}), ("files", {"base_path": "/usr"})],
)
def test_no_folder_of_the_system_is_a_workspace(source: str, setting: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="is a folder of the system; name a folder for this work only"):
        Registry().make("source", source, setting, Parts())


def _complaint(folder: Path, text: str) -> str:
    path = folder / "toolcaddie.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as raised:
        load_settings(path)
    return str(raised.value)
