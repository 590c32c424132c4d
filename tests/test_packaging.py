"""The files for containers say the same as the program. `make image-test` runs the steps of the Dockerfile in a clean Debian."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import yaml

from scripts.image_test import read_image
from toolcaddie.app.settings import load_settings

ROOT = Path(__file__).parents[1]
COMPOSE: Any = yaml.safe_load((ROOT / "compose.yaml").read_text())


def test_the_image_runs_without_privileges_on_its_volume_and_port() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()
    image = read_image(dockerfile)
    assert image.user == "toolcaddie"
    assert f"VOLUME {image.folder}\n" in dockerfile
    assert f"EXPOSE {image.variables['TOOLCADDIE_SERVER_PORT']}\n" in dockerfile
    assert image.command == ["toolcaddie", "serve"]
    assert f":{image.variables['TOOLCADDIE_SERVER_PORT']}/healthz" in image.health[-1]


def test_the_variables_of_the_containers_are_settings() -> None:
    variables = read_image((ROOT / "Dockerfile").read_text()).variables
    own = COMPOSE["services"]["toolcaddie"]["environment"]
    url = own["TOOLCADDIE_DATABASE_URL"]
    settings = load_settings(environ={**variables, **own, "TOOLCADDIE_MODEL": "openai:gpt-5.4"})
    assert (settings.server.host, settings.server.port) == ("0.0.0.0", 8321)
    assert (settings.database_url, settings.model) == (url, "openai:gpt-5.4")
    assert settings.server.workers == 2
    assert set(own) == {
        "TOOLCADDIE_DATABASE_URL",
        "TOOLCADDIE_MODEL",
        "TOOLCADDIE_SERVER_WORKERS",
        "OPENAI_API_KEY",
    }


def test_the_build_sees_all_files_that_the_package_names() -> None:
    allowed = (ROOT / ".dockerignore").read_text().split()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = [
        "pyproject.toml",
        "constraints.txt",
        "packaging",
        "toolcaddie",
        project["readme"],
        *project["license-files"],
    ]
    assert all(f"!{name}" in allowed for name in names)


def test_the_containers_wait_for_a_healthy_database_and_have_no_secret_in_the_file() -> None:
    services = COMPOSE["services"]
    server, database = services["toolcaddie"], services["postgres"]
    assert server["depends_on"] == {"postgres": {"condition": "service_healthy"}}
    assert "pg_isready" in database["healthcheck"]["test"][1]
    variables = {**server["environment"], **database["environment"]}
    secrets = {name: value for name, value in variables.items() if re.search("KEY|PASSWORD|URL", name)}
    assert all("${" in value for value in secrets.values())
    assert (server["cap_drop"], server["read_only"]) == (["ALL"], True)
    assert {volume.partition(":")[0] for each in services.values() for volume in each["volumes"]} == set(
        COMPOSE["volumes"]
    )
    assert server["volumes"][0].endswith(":/data")
