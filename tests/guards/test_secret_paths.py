"""Which files hold secrets, by their paths."""

from __future__ import annotations

import time
from pathlib import Path, PurePath

import pytest

from toolcaddie.guards.secret_paths import SecretPaths
from toolcaddie.guards.secret_walk import SecretWalk, TooManyFilesError, secret_entries

CORPORA = Path(__file__).parents[3] / "shared" / "corpora"
SHIPPED = SecretPaths.of()

CLASSES = {
    "environment": [
        ".env",
        ".env.production",
        ".env.local",
        "deploy/.env",
        "prod.env",
        ".envrc",
        ".ENV",
        "env",
        ".dev.vars",
    ],
    "private key": [
        "server.key",
        "tls/server.pem",
        "a.p12",
        "a.pfx",
        "cert.pkcs12",
        "a.ppk",
        "my_private_key.txt",
        "AuthKey_1.p8",
    ],
    "SSH": [".ssh/config", ".ssh/anything", "id_rsa", "id_ed25519", "id_ed25519.pub", "backup_rsa", "authorized_keys"],
    "store": [
        "a.kdbx",
        "a.jks",
        "login.keyring",
        ".gnupg/x",
        ".password-store/mail.gpg",
    ],
    "credentials": [
        "credentials",
        "credentials.json",
        "credentials.csv",
        ".secret",
        "secrets.yaml",
        "token.json",
        "x.secret",
        ".htpasswd",
    ],
    "cloud": [
        ".aws/config",
        "aws/credentials",
        ".azure/x",
        ".config/gcloud/x",
        "service-account-prod.json",
        "kaggle.json",
    ],
    "infrastructure": [
        ".kube/config",
        ".docker/config.json",
        "kubeconfig",
        "terraform.tfstate",
        "prod.tfvars",
        ".vault-token",
    ],
    "developers": [
        ".netrc",
        "_netrc",
        ".npmrc",
        ".pypirc",
        ".git/config",
        ".git-credentials",
        ".cargo/credentials.toml",
        ".mcp.json",
    ],
    "database": ["database.yml", ".pgpass", ".my.cnf", "wp-config.php", "rclone.conf", ".msmtprc"],
    "typed": [".bash_history", "history", ".python_history", ".psql_history", ".node_repl_history"],
    "shell": [".bashrc", ".profile", ".zshenv"],
    "browser": [".mozilla/x", "key4.db", "Login Data", "google-chrome/Default/Cookies", ".purple/accounts.xml"],
    "wallet": ["wallet.dat", ".electrum/wallets/default", "UTC--2026-01-01T00-00-00Z--ab", "seed.txt"],
    "screen": [".Xauthority", ".vnc/passwd"],
    "Windows": ["ntds.dit", "Windows/System32/config/SAM", "unattend.xml", "windows\\system32\\config\\system"],
    "system": ["shadow", "etc/shadow", "gshadow", "master.passwd", "sudoers", "etc/ssl/private/x"],
    "holds a secret": ["db-passwords.xlsx", "client-secret", "clientSecret.json", "github-token", "stripe_api_key.txt"],
}


@pytest.mark.parametrize(("words", "path"), [(words, path) for words, paths in CLASSES.items() for path in paths])
@pytest.mark.proves("R002-56")
def test_files_with_secrets_are_refused_and_the_reason_names_their_class(words: str, path: str) -> None:
    reason = SHIPPED.reason(f"project/{path}")
    assert reason is not None
    assert words in reason


@pytest.mark.parametrize(
    "name",
    [
        ".env",
        ".env.",
        ".env ",
        ".ENV",
        "%2eenv",
        "%252eenv",
        "\uff0eenv",
        ".\u200benv",
        ".env::$DATA",
        ".env:stream",
        ".env~",
        ".env~1",
        ".env.bak",
        ".env.old",
        ".env.swp",
        ".env.2024-05-06",
        ".env (1)",
        ".env - copy",
        "copy of .env",
        "#.env#",
        ".#.env",
        ".env.tar.gz",
        ".env%00",
        ".env\0",
        "[.env]",
        '".env"',
        ".env.bak.gz",
        "x/../.env",
        "x\\.env",
        ".env.gpg",
    ],
)
def test_no_other_spelling_and_no_copy_of_a_secret_file_is_readable(name: str) -> None:
    assert SHIPPED.reason(name)
    assert SHIPPED.reason(f"project/{name}")


@pytest.mark.parametrize(
    "path",
    [
        "README.md",
        "src/secrets.py",
        "src/token.ts",
        "docs/credentials.md",
        ".env.example",
        ".env.sample",
        ".env.template",
        "env.py",
        "secrets.example.yaml",
        ".github/workflows/secrets.yml",
        "tests/test_passwords.py",
        "tests/fixtures/tls/server.key",
        "keyboard.json",
        "monkey.txt",
        "data/tokens_per_day.csv",
        "history.md",
        "author.json",
        "environment.yml",
        "env/lib/x.py",
        "ssh/client.py",
        "aws/handler.js",
        "package.json",
        ".gitignore",
        ".git/HEAD",
        ".vscode/settings.json",
        ".python-version",
        "uv.lock",
        "config/app.toml",
        "venv/lib/python3.11/site-packages/certifi/cacert.pem",
        "passwordless.md",
        "public.crt",
        "CHANGELOG",
        "a.txt.bak",
        "v1.2.3",
        "...",
        ".",
    ],
)
def test_ordinary_files_of_projects_are_readable(path: str) -> None:
    assert SHIPPED.reason(path) is None
    assert SHIPPED.reason(f"/srv/app/{path}") is None


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "/etc/nginx/nginx.conf",
        "/proc/1/environ",
        "/sys/x",
        "/dev/mem",
        "/run/docker.sock",
        "/var/run/secrets/x",
        "/home/ann/.x",
        "/home/ann/.config/app/settings",
        "/root/.viminfo",
        "/host/etc/passwd",
        "/private/etc/master.passwd",
        "/Users/ann/.zprofile",
    ],
)
def test_files_of_the_system_and_hidden_ones_of_a_home_are_refused(path: str) -> None:
    assert SHIPPED.reason(path)


def test_the_folder_that_an_operator_chose_is_not_judged_by_where_it_lies() -> None:
    home = SecretPaths.of(base=PurePath("/home/ann/.bots/work"))
    assert home.reason("notes/today.md") is None
    assert home.reason("/home/ann/.bots/work/notes/today.md") is None
    assert home.reason("id_rsa")
    assert home.reason("/home/ann/.bots/other")
    whole = SecretPaths.of(base=PurePath("/"))
    assert whole.reason("etc/hosts")
    assert whole.reason("srv/app/main.py") is None
    aws = SecretPaths.of(base=PurePath("/srv/.aws"))
    assert aws.reason("config")


def test_own_patterns_mean_files_folders_and_paths() -> None:
    own = SecretPaths.of(["*.sql", "private/", "reports/2024", "drafts"])
    for path in (
        "a/dump.SQL",
        "private/x",
        "a/private/b/c",
        "reports/2024",
        "a/reports/2024/x.md",
        "drafts",
        "drafts/x",
    ):
        assert "the settings deny" in (own.reason(path) or ""), path
    for path in ("dump.sqlite", "private", "2024/x", "reports/2023"):
        assert own.reason(path) is None, path


def test_files_that_git_runs_may_be_read_but_not_written() -> None:
    assert SHIPPED.reason(".git/hooks/pre-commit") is None
    assert SecretPaths.of(writing=True).reason(".git/hooks/pre-commit")
    assert SecretPaths.of(writing=True).reason(".github/workflows/ci.yml") is None


@pytest.mark.parametrize(("file", "refused"), [("secret_paths.txt", True), ("secret_paths_allow.txt", False)])
def test_lists_of_others_are_judged_as_they_say(file: str, refused: bool) -> None:
    if not (CORPORA / file).exists():
        pytest.skip(f"{file} is not beside this repository")
    paths = (CORPORA / file).read_text().splitlines()
    wrong = [path for path in paths if (SHIPPED.reason(path) is not None) != refused]
    assert len(wrong) <= len(paths) * (0.01 if refused else 0.002), wrong


def test_a_path_is_judged_in_less_than_a_tenth_of_a_millisecond() -> None:
    path = "/srv/app/src/app/resources/chat/completions/messages.py"
    SHIPPED.reason(path)
    fastest = min(_seconds(path) for _ in range(5))
    assert fastest < 0.0001


def _seconds(path: str) -> float:
    began = time.perf_counter()
    for _ in range(200):
        SHIPPED.reason(path)
    return (time.perf_counter() - began) / 200


# --- a whole folder ----------------------------------------------------------------------------------------------------


def test_a_walk_finds_secret_files_and_folders_and_second_names_of_them(tmp_path: Path) -> None:
    for name in (
        "a/b/.env",
        "a/main.py",
        ".ssh/id_rsa",
        "node_modules/x/key.pem",
        f".git/objects/ab/{'c' * 38}",
        ".git/HEAD",
        "notes.txt",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "innocent").hardlink_to(tmp_path / "a/b/.env")
    (tmp_path / "link").symlink_to("a/b/.env")
    (tmp_path / "circle").symlink_to(".")
    found = secret_entries(tmp_path, SecretPaths.of(base=tmp_path))
    assert found == (".ssh", "a/b/.env", "innocent", "node_modules/x/key.pem")


@pytest.mark.parametrize(
    "folder",
    [
        "a.git/objects",
        ".git/objects",
        ".git/objects/ab",
        "x/.git/objects/pack",
        "x/.git/objects/ab/cd",
        ".git/lfs/objects",
    ],
)
def test_secrets_are_found_in_folders_that_have_the_names_of_those_of_git(tmp_path: Path, folder: str) -> None:
    secret = tmp_path / folder / "conf/.env"
    secret.parent.mkdir(parents=True)
    secret.write_text("x")
    (tmp_path / folder / "id_rsa").write_text("x")
    assert secret_entries(tmp_path, SecretPaths.of(base=tmp_path)) == (f"{folder}/conf/.env", f"{folder}/id_rsa")


def test_a_second_name_of_a_secret_is_found_among_the_objects_of_git(tmp_path: Path) -> None:
    (tmp_path / ".git/objects/ab").mkdir(parents=True)
    (tmp_path / ".env").write_text("x")
    digest = f".git/objects/ab/{'0' * 38}"
    (tmp_path / digest).hardlink_to(tmp_path / ".env")
    assert secret_entries(tmp_path, SecretPaths.of(base=tmp_path)) == (".env", digest)


def test_a_second_walk_sees_every_change_since_the_first(tmp_path: Path) -> None:
    walk = SecretWalk(tmp_path, SecretPaths.of(base=tmp_path))
    (tmp_path / "a").mkdir()
    (tmp_path / "a/plain").write_text("x")
    assert walk.entries() == ()
    (tmp_path / "a/.env").write_text("x")
    assert walk.entries() == walk.entries() == ("a/.env",)
    (tmp_path / "other").hardlink_to(tmp_path / "a/.env")
    assert walk.entries() == ("a/.env", "other")
    (tmp_path / "a").rename(tmp_path / "b")
    assert walk.entries() == ("b/.env", "other")
    (tmp_path / "b/.env").unlink()
    assert walk.entries() == ()


def test_a_folder_that_has_not_changed_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/.env").touch()
    monkeypatch.setattr("time.time_ns", lambda: 2**62)  # long after the last change
    walk = SecretWalk(tmp_path, SecretPaths.of(base=tmp_path))
    assert walk.entries() == ("a/.env",)
    with monkeypatch.context() as patch:
        patch.setattr("os.scandir", None)
        assert walk.entries() == ("a/.env",)
    (tmp_path / "a/key.pem").touch()
    assert walk.entries() == ("a/.env", "a/key.pem")


def test_a_folder_with_too_many_files_is_an_error_and_not_half_hidden(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / str(number)).touch()
    assert secret_entries(tmp_path, SHIPPED, most=20) == ()
    with pytest.raises(TooManyFilesError, match="more than 19 files"):
        secret_entries(tmp_path, SHIPPED, most=19)
    with pytest.raises(OSError):
        secret_entries(tmp_path / "missing", SHIPPED)
