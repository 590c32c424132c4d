"""Parts by socket, name and settings: from Python and from what is installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolcaddie.core.errors import ConfigError
from toolcaddie.core.tool import Tool
from toolcaddie.parts import Parts, Secrets, Variable
from toolcaddie.ports import ToolSource
from toolcaddie.registry import SOCKETS, Registry
from toolcaddie.sources.definitions import DefinitionSource


def tickets(*, url: str, pages: int = 3, token_env: Variable | None = None, parts: Parts) -> ToolSource:
    """A source with settings of its own: as many tools as pages, each described by its address."""
    token = "" if token_env is None else parts.secrets.require(token_env, what="the key of the ticket system")
    tools = [Tool(name=f"page_{page}", description=f"{url}?{token}", source="tickets") for page in range(pages)]
    return DefinitionSource("tickets", tools, origin=url)


@pytest.fixture
def registry() -> Registry:
    registry = Registry()
    registry.add("source", "tickets", tickets)
    return registry


def complaint(registry: Registry, config: dict[str, object], parts: Parts | None = None) -> str:
    with pytest.raises(ConfigError) as raised:
        registry.make("source", "tickets", config, parts)
    return str(raised.value)


def test_a_part_is_made_from_its_settings_and_the_hosts_parts(registry: Registry) -> None:
    parts = Parts(secrets=Secrets({"TICKETS_TOKEN": "t-1"}))
    source = registry.make("source", "tickets", {"url": "http://x", "pages": 2, "token_env": "TICKETS_TOKEN"}, parts)
    assert [tool.description for tool in source.tools()] == ["http://x?t-1", "http://x?t-1"]


def test_a_setting_that_is_left_out_has_the_default_of_the_factory(registry: Registry) -> None:
    assert len(registry.make("source", "tickets", {"url": "http://x"}).tools()) == 3


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            {"ulr": "http://x"},
            "source 'tickets': unknown key 'ulr'; did you mean 'url'? there are pages, token_env, url",
        ),
        ({}, "source 'tickets': Object missing required field `url`"),
        ({"url": 5}, "source 'tickets': Expected `str`, got `int` - at `$.url`"),
        ({"url": "x", "pages": "many"}, "source 'tickets': Expected `int`, got `str` - at `$.pages`"),
        ({"url": "x", "token_env": "sk-12345"}, "source 'tickets': Expected `str` matching regex"),
        (
            {"url": "x", "token_env": "UNSET_TOKEN"},
            "the environment variable UNSET_TOKEN is not set; put the key of the",
        ),
        ({"url": "x", "parts": 1}, "unknown key 'parts'"),
    ],
)
def test_a_wrong_setting_is_refused_by_name(registry: Registry, config: dict[str, object], message: str) -> None:
    assert message in complaint(registry, config, Parts(secrets=Secrets({})))


def test_what_a_factory_raises_is_reported_with_its_place(registry: Registry) -> None:
    def failing() -> ToolSource:
        raise OSError("no route to host")

    registry.add("source", "tickets", failing)
    message = complaint(registry, {})
    assert "source 'tickets': making it failed: OSError: no route to host (" in message
    assert Path(__file__).name in message


def test_a_factory_of_something_else_is_refused_with_what_is_missing(registry: Registry) -> None:
    registry.add("source", "tickets", dict)
    assert (
        "its factory made a dict, which lacks name, revision, tools, categories, call_tool; see ports.ToolSource"
        in (complaint(registry, {}))
    )


def test_a_part_of_this_program_takes_the_place_of_an_installed_one(registry: Registry) -> None:
    registry.add("source", "gym", lambda: DefinitionSource("gym", [Tool(name="mine", source="gym")], origin="here"))
    assert [tool.name for tool in registry.make("source", "gym").tools()] == ["mine"]
    assert registry.names("source").count("gym") == 1


def test_another_registry_does_not_have_what_was_added_to_this_one(registry: Registry) -> None:
    assert "tickets" in registry.names("source")
    assert "tickets" not in Registry().names("source")


def test_a_socket_that_is_not_there_is_refused_with_those_that_are(registry: Registry) -> None:
    with pytest.raises(ConfigError, match="there is no socket 'sauce'; did you mean 'source'"):
        registry.add("sauce", "tickets", tickets)


def test_what_cannot_be_called_makes_nothing(registry: Registry) -> None:
    with pytest.raises(
        ConfigError, match="source 'x': a list cannot be called; pass a function or a class that makes the part"
    ):
        registry.add("source", "x", [])  # type: ignore[arg-type]


@pytest.mark.parametrize("socket", SOCKETS)
def test_every_installed_factory_says_which_settings_it_takes(socket: str) -> None:
    registry = Registry()
    for name in registry.names(socket):
        assert registry.config_type(socket, name).__struct_config__.frozen


def test_secrets_are_in_no_repr() -> None:
    assert "t-1" not in repr(Parts(secrets=Secrets({"TICKETS_TOKEN": "t-1"})))
