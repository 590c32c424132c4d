"""Texts of strangers on the pages of keys, the trail and the policy stay texts."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest

from tests.doors.console.browser import Page, browser
from tests.doors.console.full import ADMIN, console
from toolcaddie.app.settings import PartSettings
from toolcaddie.core.control import Principal
from toolcaddie.core.storage import EventRecord

pytestmark = pytest.mark.anyio

ATTACK = "\"'><script>alert(1)</script><img src=x onerror=alert(1)>{{ 7*191 }}</textarea></pre>%(x)s"
NAME = "\"'><script>alert(1)</script><svg/onload=a()>{{7*191}}%(x)s%s"
RULE = '@id("<script>a</script>")\n@reason("<img src=x onerror=a>%(x)s")\nforbid (principal, action, resource) when { false };'


def is_harmless(page: Page) -> bool:
    """True if the page has only its own script and picture, and no handlers or styles."""
    nodes = page.tree.css("*")
    sources = [node.attributes.get("src") or "" for node in nodes if node.tag in ("script", "img", "iframe", "svg")]
    names = {name for node in nodes for name in node.attributes}
    return all(source.startswith("/console/static/") for source in sources) and not any(
        name == "style" or name.startswith("on") for name in names
    )


@pytest.mark.parametrize("language", ["en", "es"])
async def test_hostile_names_and_records_run_nothing(tmp_path: Path, language: str) -> None:
    policy = PartSettings(type="cedar", config={"text": RULE, "deny": ["<b>*"]})
    async with console(tmp_path, policy=policy) as server, browser(server) as ada:
        key, _ = await server.parts.keys.add(NAME, Principal(id=ATTACK, role=ATTACK))
        record = EventRecord(run_id=ATTACK, seq=0, at=1.8e9, kind="<b>&\u202e", data={"name": ATTACK, ATTACK: [ATTACK]})
        server.parts.event_log.append(record)
        await server.parts.event_log.flush(ATTACK)
        await ada.signs_in(ADMIN, then="/console/keys")
        page = await ada.opens("/console/policy/try")
        pages = [await ada.sends(page, "try", text=f"{RULE}{ATTACK}")]
        paths = (
            "/console/keys",
            f"/console/keys/{key.id}",
            "/console/audit",
            f"/console/audit?run={quote(ATTACK)}&person={quote(ATTACK)}&kind={quote(ATTACK)}",
            "/console/policy",
            "/console/policy/check",
            "/console/policy/try",
            f"/console/policy/explain?person={quote(ATTACK)}&tool={quote(ATTACK)}&arguments={quote(ATTACK)}",
            "/console/policy/explain?person=ann&tool=delete_client",
        )
        pages += [await ada.opens(path, **{"accept-language": language}) for path in paths]
        assert [page.path for page in pages if page.status >= 500] == []
        assert [page.path for page in pages if not is_harmless(page)] == []
        assert "1337" not in "".join(page.text for page in pages)
        assert "\u202e" not in "".join(page.html for page in pages)
