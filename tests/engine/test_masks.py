"""The mask that roles, scope and bots make of a catalog."""

from __future__ import annotations

import pytest

from toolcaddie.control.bots import Bot, Bots
from toolcaddie.control.visibility import Visibility
from toolcaddie.core.catalog import Catalog, View
from toolcaddie.core.control import Principal
from toolcaddie.core.tool import Tool

RESTRICTED = Catalog.of(
    [
        Tool(name="open"),
        Tool(name="admins", roles=("admin", "owner")),
        Tool(name="bot7", scope="bot7"),
        Tool(name="both", scope="bot7", roles=("admin",)),
    ]
)


def seen(visibility: Visibility, catalog: Catalog, **principal: str) -> list[str]:
    mask = visibility.mask(catalog, Principal(**principal))
    return [shown.name for shown in View(catalog=catalog, mask=mask)]


def test_roles_and_scope_decide_what_is_seen() -> None:
    visibility = Visibility(Bots())
    assert seen(visibility, RESTRICTED) == ["open"]
    assert seen(visibility, RESTRICTED, role="owner") == ["open", "admins"]
    assert seen(visibility, RESTRICTED, bot="bot7") == ["open", "bot7"]
    assert seen(visibility, RESTRICTED, bot="bot7", role="admin") == ["open", "admins", "bot7", "both"]
    assert seen(visibility, RESTRICTED, bot="all") == ["open"]


def test_a_catalog_without_restrictions_needs_no_mask() -> None:
    assert Visibility(Bots({"b": Bot()})).mask(Catalog.of([Tool(name="a")]), Principal(bot="b")) is None


def test_the_mask_of_a_role_and_bot_is_made_once_and_cannot_be_changed() -> None:
    visibility = Visibility(Bots())
    mask = visibility.mask(RESTRICTED, Principal(id="a", role="admin"))
    assert mask is not None
    assert visibility.mask(RESTRICTED, Principal(id="b", role="admin")) is mask
    with pytest.raises(TypeError, match="does not support item assignment"):
        mask[0] = False


def test_catalogs_that_come_and_go_do_not_mix_up_their_masks() -> None:
    visibility = Visibility(Bots())
    for number in range(50):
        catalog = Catalog.of([Tool(name=f"t{number}", roles=("admin",)), Tool(name="open")])
        assert seen(visibility, catalog) == ["open"]
    assert seen(visibility, RESTRICTED) == ["open"]
