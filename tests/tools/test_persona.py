"""The tools with which a bot remembers and changes itself, through a runtime with the policy that ships."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from toolcaddie.control.policy.allow import AllowAll
from toolcaddie.core.catalog import Catalog, View
from toolcaddie.core.control import Principal
from toolcaddie.core.personas import Author, PersonaKey, read_fact
from toolcaddie.core.run import RunContext
from toolcaddie.core.tool import ToolResult
from toolcaddie.parts import Parts
from toolcaddie.personas import StoredPersonas
from toolcaddie.runtime import Runtime
from toolcaddie.storage.memory import MemoryStore
from toolcaddie.testing import ScriptedProvider
from toolcaddie.tools.persona import persona
from toolcaddie.tools.persona.goals import changed, goals_of
from toolcaddie.tools.persona.identity import with_fields
from toolcaddie.tools.persona.secrets import without_secrets

pytestmark = pytest.mark.anyio

ANN = Principal(id="ann", bot="coach")
COACH = PersonaKey(tenant="default", bot="coach")
NOON = datetime(2026, 5, 3, 14, 5, tzinfo=UTC).timestamp()


class House:
    """A runtime with the tools, and the files behind it."""

    def __init__(self) -> None:
        self.files = StoredPersonas(MemoryStore(), clock=lambda: NOON)
        self.source = persona(timezone="UTC", parts=Parts(personas=self.files, clock=lambda: NOON))
        self.runtime = Runtime(provider=ScriptedProvider([]), sources=[self.source])

    async def call(self, tool: str, /, **arguments: Any) -> ToolResult:
        async with self.runtime:
            return await self.runtime.call(tool, arguments, principal=ANN)

    async def text(self, path: str, bot: str = "coach") -> str:
        file = await self.files.read(PersonaKey(tenant="default", bot=bot), path)
        return "" if file is None else file.text


@pytest.mark.proves("R002-28", "R002-31")
async def test_a_fact_is_appended_to_the_log_of_the_day_with_its_time_and_origin() -> None:
    house = House()
    assert (await house.call("save_memory", fact="Ann likes tea.")).structured == {"status": "saved"}
    await house.call("save_memory", fact="Ann has a dog.")
    first, second = (read_fact(line) for line in (await house.text("memory/2026-05-03.md")).splitlines())
    assert first is not None
    assert second is not None
    assert (first.time, first.text, first.provenance.who) == ("14:05", "Ann likes tea.", "default/ann")
    assert second.text == "Ann has a dog."
    assert first.provenance.trust == "clean"


@pytest.mark.proves("R002-29")
async def test_the_injected_bot_decides_and_without_a_bot_nothing_is_saved() -> None:
    house = House()
    async with house.runtime:
        await house.runtime.call("save_memory", {"fact": "x y z"}, principal=ANN, injected={"_botId": "other"})
        nobody = await house.runtime.call("save_memory", {"fact": "x y z"}, principal=Principal(id="ann"))
    assert "x y z" in await house.text("memory/2026-05-03.md", bot="other")
    assert await house.text("memory/2026-05-03.md") == ""
    assert nobody.is_error
    assert "no bot" in nobody.text


@pytest.mark.proves("R002-30")
async def test_secrets_are_redacted_or_refused_and_known_facts_are_reported() -> None:
    house = House()
    refused = await house.call("save_memory", fact="My password is hunter2!")
    assert (refused.is_error, "Refused" in refused.text, "hunter2" in refused.text) == (True, True, False)
    redacted = await house.call("save_memory", fact="Ann moved to Madrid, call her on +34 612 345 678 after lunch")
    assert redacted.structured == {"status": "redacted"}
    assert (await house.call("save_memory", fact="Ann likes tea.")).structured == {"status": "saved"}
    assert (await house.call("save_memory", fact="  ann LIKES tea ")).structured == {"status": "known"}
    log = await house.text("memory/2026-05-03.md")
    assert "612" not in log
    assert "hunter2" not in log
    assert log.count("tea") == 1


SECRETS = (
    "sk-proj-abcdefghijklmnop1234567890",
    "the token is ghp_abcdefghijklmnopqrstuvwxyz0123456789",
    "api_key=abc123def456",
    "mi contraseña es gato99",
    "the PIN is 4321",
    "+1 (555) 123-4567",
    "call 555-123-4567",
    "mobile 07700 900123",
    "612 345 678",
    "4111 1111 1111 1111",
    "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY",
)
HARMLESS = (
    "The birthday is on 2026-05-03 at 14:05.",
    "It costs 1,234,567.89 euros, or 12.50 a month.",
    "Order number 4815162342 arrives on 03-05-2026.",
    "The password is stored elsewhere.",
    "Version 3.11.4 runs on 192.168.1.10.",
    "Ann is 34 and has 2 dogs and 3 cats.",
)


@pytest.mark.parametrize("text", SECRETS)
def test_realistic_secrets_are_removed(text: str) -> None:
    assert "[redacted]" in without_secrets(text)


@pytest.mark.parametrize("text", HARMLESS)
def test_harmless_sentences_with_numbers_stay(text: str) -> None:
    assert without_secrets(text) == text


async def test_a_new_soul_waits_for_a_person_who_sees_the_difference() -> None:
    house = House()
    await house.files.write(COACH, "SOUL.md", "kind\n", author=Author(who="x"), expected=0)
    await house.call("update_soul", content="cruel\n")
    (question,) = await house.runtime.approvals.list("default")
    assert "-kind\n+cruel" in question.preview
    assert await house.text("SOUL.md") == "kind\n"


@pytest.mark.proves("R002-33")
async def test_fields_of_the_identity_change_and_the_rest_stays() -> None:
    house = House()
    before = "# Me\r\n- **Name:** Ada\r\n- Vibe: calm\r\nunknown:  x \r\n"
    await house.files.write(COACH, "IDENTITY.md", before, author=Author(who="x"), expected=0)
    assert (await house.call("update_identity")).is_error
    await house.call("update_identity", name="Bea", emoji="🦉")
    expected = before.replace("Ada", "Bea") + "- **Emoji:** 🦉\n"
    assert await house.text("IDENTITY.md") == expected


@pytest.mark.proves("R002-34", "R002-35", "R002-36", "R002-37")
async def test_goals_are_added_updated_completed_archived_and_listed() -> None:
    house = House()
    for number in range(12):
        await house.call("manage_goals", action="add", goal=f"Goal {number:02}", priority="high")
    assert "several" in (await house.call("manage_goals", action="update", goal="gOAL", status="blocked")).text
    assert (await house.call("manage_goals", action="complete", goal="nothing")).is_error
    await house.call("manage_goals", action="update", goal="goal 11", status="in_progress")
    for number in range(11):
        await house.call("manage_goals", action="complete", goal=f"goal {number:02}", outcome="done well")
    text = await house.text("GOALS.md")
    assert text.count("- [x]") == 10
    assert "Goal 00" in await house.text("notes/goals-archive.md")
    assert "  - completed: 2026-05-03\n  - outcome: done well" in text
    assert "[ ] Goal 11; status: in_progress; priority: high" in (await house.call("manage_goals", action="list")).text


@given(st.text(alphabet="ab \n\r-[]x#`é"), st.text(alphabet="ab \n-[]x#`é"))
def test_whatever_is_not_understood_survives(before: str, after: str) -> None:
    text = f"{before}\n- [ ] the wanted goal\nend{after}"
    goals = [goal for goal in goals_of(text) if goal.text == "the wanted goal"]
    for goal in goals:
        new = changed(text, goal, {"status": "blocked"})
        assert new.replace("\n  - status: blocked", "", 1) == text
    assert with_fields(before, {}) == before


@pytest.mark.proves("R002-32")
async def test_an_approved_soul_replaces_the_file_and_the_last_ten_versions_stay_with_their_dates() -> None:
    files = StoredPersonas(MemoryStore(), clock=lambda: NOON)
    source = persona(parts=Parts(personas=files, clock=lambda: NOON))
    async with Runtime(provider=ScriptedProvider([]), sources=[source], policy=AllowAll()) as runtime:
        for number in range(13):
            await runtime.call("update_soul", {"content": f"soul {number}\n"}, principal=ANN)
    versions = await files.versions(COACH, "SOUL.md")
    assert [(each.text, each.at) for each in versions] == [(f"soul {number}\n", NOON) for number in range(2, 13)]
    assert versions[-1].author.who == "default/ann"


async def test_after_untrusted_content_every_change_asks_with_a_preview_and_listing_does_not() -> None:
    source = House().source
    context: Any = RunContext(
        run_id="run_1", principal=ANN, view=View(catalog=Catalog.of([])), model="", taint=("web_fetch",)
    )
    clean = replace(context, taint=())
    changes: dict[str, dict[str, Any]] = {
        "save_memory": {"fact": "Ann likes tea."},
        "update_identity": {"name": "Bea"},
        "manage_goals": {"action": "add", "goal": "learn"},
    }
    tools = {each.name: each for each in source.tools()}
    for name, arguments in changes.items():
        assessment = await source.assess(tools[name], arguments, context)
        assert assessment.annotations is not None
        assert assessment.annotations.destructive
        assert assessment.preview
        assert (await source.assess(tools[name], arguments, clean)).annotations is None
    listing = await source.assess(tools["manage_goals"], {"action": "list"}, context)
    assert listing.annotations is not None
    assert listing.annotations.read_only
