"""Files beneath a folder, by paths that a model wrote: no path, link, device or moved folder leads out of it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from toolcaddie.core.errors import ConfigError
from toolcaddie.guards.openat2 import problem, rename
from toolcaddie.guards.paths import ChangedFileError, Folder, FolderPathError, PathError

if problem():
    pytest.skip(problem(), allow_module_level=True)

INSIDE, OUTSIDE = b"inside\n", b"outside\n"


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A folder with a file; beside it lie folders with files that are none of its business."""
    folder = tmp_path / "base"
    for each, content in ((folder, INSIDE), (tmp_path / "outside", OUTSIDE), (tmp_path / "base-evil", OUTSIDE)):
        each.mkdir()
        (each / "file").write_bytes(content)
    return folder


@pytest.fixture
def untouched(base: Path) -> Iterator[None]:
    """After the test, everything outside of the base is as it was."""
    yield
    for folder in ("outside", "base-evil"):
        assert [path.name for path in (base.parent / folder).iterdir()] == ["file"]
        assert (base.parent / folder / "file").read_bytes() == OUTSIDE


def acts(folder: Folder, path: str) -> list[Callable[[], object]]:
    """Reading, writing and editing a path."""
    return [
        lambda: folder.read(path, most=1_000),
        lambda: folder.write(path, b"written"),
        lambda: folder.replace(path, b"edited", before=OUTSIDE),
        lambda: folder.check(path),
    ]


ESCAPES = [
    "..",
    "../outside/file",
    "../base-evil/file",
    "../../../../../../../../etc/passwd",
    "/etc/passwd",
    "//etc/passwd",
    "/proc/self/cwd/file",
    "folder/../../outside/file",
    "link/file",
    "link/../outside/file",
    "file-link",
    "chain",
    "up/outside/file",
    "circle",
    "dangling",
    "dangling-inside",
    "link/new/file",
    "magic/0",
    "root/etc/passwd",
    "hard",
]


@pytest.mark.parametrize("path", ESCAPES)
@pytest.mark.usefixtures("untouched")
@pytest.mark.proves("R002-55")
def test_nothing_outside_of_the_folder_is_read_or_written(base: Path, path: str) -> None:
    outside = base.parent / "outside"
    (base / "folder").mkdir()
    for link, target in {
        "link": outside,
        "file-link": outside / "file",
        "chain": "file-link",
        "up": "..",
        "circle": "circle",
        "dangling": outside / "new",
        "dangling-inside": "nowhere",
        "magic": "/proc/self/fd",
        "root": "/proc/self/root",
    }.items():
        (base / link).symlink_to(target)
    (base / "hard").hardlink_to(outside / "file")
    for act in acts(Folder(base), path):
        with pytest.raises(PathError):
            act()
    os.unlink(base / "hard")


@pytest.mark.parametrize(
    "path", ["..%2foutside%2ffile", "..\\outside\\file", "\uff0e\uff0e/outside/file", "....//outside/file"]
)
@pytest.mark.usefixtures("untouched")
def test_encoded_paths_are_only_odd_names_inside(base: Path, path: str) -> None:
    folder = Folder(base)
    assert folder.read(path, most=1_000) is None
    folder.write(path, b"written")
    assert (base / path).read_bytes() == b"written"


def test_links_that_stay_inside_are_followed_and_their_real_path_is_named(base: Path) -> None:
    (base / "folder").mkdir()
    (base / "folder" / "link").symlink_to("../file")
    folder = Folder(base)
    assert folder.read("folder/link", most=100) == INSIDE
    assert folder.write("folder/link", b"new") == "file"
    assert (base / "folder" / "link").is_symlink()
    assert (base / "file").read_bytes() == b"new"


def test_absolute_paths_inside_and_paths_with_dots_are_understood(base: Path) -> None:
    (base / "folder").mkdir()
    folder = Folder(base)
    for path in (f"{base}/file", "./file", "folder/../file", "file"):
        assert folder.read(path, most=100) == INSIDE


@pytest.mark.parametrize(
    "path",
    ["", " ", "a\0b", "\ud800", "x" * 5_000, "n" * 300, "new\nline", "\x1b[2J", "file/x", "file/", "missing/../new"],
)
def test_paths_that_name_no_possible_file_are_refused_in_words(base: Path, path: str) -> None:
    with pytest.raises(PathError, match=r"\w+ \w+ \w+"):
        Folder(base).write(path, b"")


def test_devices_pipes_and_sockets_are_refused_at_once(base: Path) -> None:
    os.mkfifo(base / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        descriptor = os.open(base, os.O_PATH)
        listener.bind(f"/proc/self/fd/{descriptor}/socket")  # the path of a socket may have 108 bytes only
        os.close(descriptor)
        if os.geteuid() == 0:
            os.mknod(base / "zero", 0o20600, os.makedev(1, 5))
        for name in ("pipe", "socket", *(["zero"] if os.geteuid() == 0 else [])):
            for act in acts(Folder(base), name):
                with pytest.raises(PathError, match="not a regular file"):
                    act()


def test_mounts_below_the_folder_are_not_entered(base: Path) -> None:
    (base / "mounted").mkdir()
    done = subprocess.run(
        ["mount", "--bind", base.parent / "outside", base / "mounted"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")
    try:
        with pytest.raises(PathError, match="leads out"):
            Folder(base).read("mounted/file", most=100)
    finally:
        subprocess.run(["umount", base / "mounted"], check=True)


def test_a_folder_that_became_a_link_is_refused_and_works_again_as_a_folder(base: Path) -> None:
    folder, moved = Folder(base), base.with_name("moved")
    base.rename(moved)
    base.symlink_to(base.parent / "outside")
    with pytest.raises(PathError, match="cannot be opened"):
        folder.read("file", most=100)
    base.unlink()
    moved.rename(base)
    assert folder.read("file", most=100) == INSIDE


@pytest.mark.usefixtures("untouched")
def test_a_link_that_is_exchanged_all_the_time_never_leads_out(base: Path) -> None:
    (base / "sub").mkdir()
    (base / "sub" / "file").write_bytes(INSIDE)
    (base / "link").symlink_to(base.parent / "outside")
    folder, stop, descriptor = Folder(base), threading.Event(), os.open(base, os.O_PATH)

    def exchange() -> None:
        while not stop.is_set():
            rename(descriptor, "sub", "link", how="exchange")

    thread = threading.Thread(target=exchange)
    thread.start()
    contents = set()
    try:
        for number in range(3_000):
            try:
                contents.add(folder.read("sub/file", most=100))
                if number % 10 == 0:
                    folder.write("sub/file", INSIDE)
            except PathError:
                contents.add(b"refused")
    finally:
        stop.set()
        thread.join()
        os.close(descriptor)
    assert contents <= {INSIDE, b"refused"}


def test_a_refused_name_is_refused_as_it_is_written_and_as_it_is(base: Path) -> None:
    (base / "private").mkdir()
    (base / "private" / "diary").write_text("x")
    (base / "notes").symlink_to("private/diary")
    folder = Folder(base, refuse=lambda path: "it is private" if path.startswith("private") else None)
    for path in ("private/diary", "notes", "private/new"):
        with pytest.raises(PathError, match="it is private"):
            folder.read(path, most=100)
        with pytest.raises(PathError, match="it is private"):
            folder.write(path, b"")
    assert folder.names(".", most=10) == ["file", "notes"]


def test_missing_folders_are_made_and_modes_are_narrow_and_kept(base: Path) -> None:
    folder = Folder(base)
    old = os.umask(0)
    try:
        assert folder.write("a/b/new", b"1") == "a/b/new"
    finally:
        os.umask(old)
    assert [path.stat().st_mode & 0o777 for path in (base / "a", base / "a/b", base / "a/b/new")] == [
        0o750,
        0o750,
        0o640,
    ]
    (base / "a/b/new").chmod(0o751)
    folder.write("a/b/new", b"2")
    folder.replace("a/b/new", b"3", before=b"2")
    assert (base / "a/b/new").stat().st_mode & 0o777 == 0o751
    assert os.listdir(base / "a/b") == ["new"]


def test_a_changed_file_is_not_replaced(base: Path) -> None:
    folder = Folder(base)
    for before in (b"something else", b"insid", INSIDE * 2, b"", None):
        with pytest.raises(ChangedFileError, match="read it again"):
            folder.replace("file", b"new", before=before)
    with pytest.raises(PathError, match="there is no missing"):
        folder.replace("missing", b"new", before=b"old")
    with pytest.raises(ChangedFileError):
        folder.replace("missing/file", b"new", before=b"old") if (base / "missing").exists() else folder.replace(
            "file", b"", before=b""
        )
    assert (base / "file").read_bytes() == INSIDE
    assert os.listdir(base) == ["file"]


@pytest.fixture
def many_turns() -> Iterator[None]:
    """Lets threads alternate as often as possible."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.0001)
    yield
    sys.setswitchinterval(before)


@pytest.mark.parametrize("_round", range(4))
@pytest.mark.usefixtures("many_turns")
def test_of_two_changes_at_once_one_counts_and_no_change_is_lost(base: Path, _round: int) -> None:
    """Eight threads count up a number in a file; each tries again if another one was faster."""
    folder = Folder(base)
    folder.write("number", b"0")

    def count() -> None:
        done = 0
        while done < 25:
            before = folder.read("number", most=100)
            try:
                folder.replace("number", b"%d" % (int(before or b"0") + 1), before=before)
                done += 1
            except ChangedFileError:
                continue

    threads = [threading.Thread(target=count) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (base / "number").read_bytes() == b"200"
    assert sorted(os.listdir(base)) == ["file", "number"]


WRITER = """
import sys
from pathlib import Path
from toolcaddie.guards.paths import Folder
folder = Folder(Path(sys.argv[1]))
while True:
    for letter in (b"a", b"b"):
        folder.write("file", letter * 300_000)
        print(flush=True)
"""


def test_a_killed_writer_leaves_the_old_content_or_the_new_one(base: Path) -> None:
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(base)], stdout=subprocess.PIPE)
    assert writer.stdout is not None
    for _ in range(20):
        writer.stdout.readline()
    writer.kill()
    writer.communicate()
    assert (base / "file").read_bytes() in (b"a" * 300_000, b"b" * 300_000)


def test_a_file_that_is_too_large_is_not_read(base: Path) -> None:
    with (base / "big").open("wb") as file:
        file.truncate(10 * 1024**3)
    with pytest.raises(PathError, match="10,737,418,240 bytes"):
        Folder(base).read("big", most=1_000)


def test_folders_have_names_and_no_content(base: Path) -> None:
    (base / "folder").mkdir()
    folder = Folder(base)
    assert folder.names(".", most=10) == ["file", "folder/"]
    assert folder.names("folder", most=10) == []
    assert len(folder.names(".", most=1)) == 2
    for path in (".", "folder", "folder/"):
        with pytest.raises(FolderPathError):
            folder.read(path, most=100)


def test_a_missing_folder_is_an_error_at_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no folder"):
        Folder(tmp_path / "missing")


def test_a_machine_without_the_system_call_is_refused_with_the_reason(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "sparc")
    with pytest.raises(ConfigError, match=r"cannot be opened safely on this machine: .*sparc"):
        Folder(base)
