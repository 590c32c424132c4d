"""The folders of the host in which tools work."""

from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from toolcaddie.core.control import Principal
from toolcaddie.core.errors import ConfigError
from toolcaddie.guards.workspaces import Workspaces

ANN = Principal(id="ann", tenant="house", bot="notes")


def test_the_folder_is_made_with_a_line_in_the_log_and_is_the_same_for_all(tmp_path: Path) -> None:
    with capture_logs() as logs:
        spaces = Workspaces(tmp_path / "a" / "b")
    assert "workspace_made" in [line["event"] for line in logs]
    assert spaces.of(ANN) == spaces.of(Principal()) == tmp_path / "a" / "b"
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o750


def test_tenants_bots_and_persons_have_folders_of_their_own(tmp_path: Path) -> None:
    spaces = Workspaces(tmp_path, per=("tenant", "bot", "person"))
    assert spaces.of(ANN) == tmp_path / "house" / "notes" / "ann"
    assert spaces.of(ANN).is_dir()
    assert spaces.of(Principal(id="ann", tenant="house")) != spaces.of(ANN)


def test_no_two_names_share_a_folder_and_none_leads_elsewhere(tmp_path: Path) -> None:
    names = [
        "ann",
        "Ann",
        "ANN",
        "..",
        ".",
        "",
        "a/b",
        "/etc",
        "a" * 300,
        "a" * 301,
        "é",
        "e\u0301",
        "x\0",
        "=ann",
        " ann",
        "ann ",
    ]
    folders = [Workspaces(tmp_path, per=("person",)).of(Principal(id=name)) for name in names]
    assert len({str(folder).casefold() for folder in folders}) == len(names)
    assert all(folder.parent == tmp_path for folder in folders)


def test_a_file_or_a_link_in_its_place_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="name a folder"):
        Workspaces(tmp_path / "file")
    with pytest.raises(ConfigError, match="cannot be used"):
        Workspaces(tmp_path / "file" / "below")
    (tmp_path / "house").symlink_to("/")
    with pytest.raises(ConfigError, match="must be a folder"):
        Workspaces(tmp_path, per=("tenant",)).of(ANN)
