"""The pages about bots: what people see of them by tenant and level, and what they change."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from tests.doors.console.browser import Browser, Page, browser
from tests.doors.console.full import ADMIN, NOBODY, OPERATOR, VIEWER, Server, console
from tests.doors.tenants import write_definitions, write_tenant
from toolcaddie.app.improving import stored_proposals
from toolcaddie.app.jobs import desk_of
from toolcaddie.app.settings.tenants import TenantSettings
from toolcaddie.control.bots import Bot, DayBudget
from toolcaddie.core.bots import ChatKey, ChatTurn
from toolcaddie.core.control import Principal
from toolcaddie.core.jobs import Every, NewJob
from toolcaddie.core.personas import Author, Fact, PersonaKey, Provenance, fact_line
from toolcaddie.jobs.desk import JobDesk
from toolcaddie.personas import StoredChats, StoredPersonas
from toolcaddie.tools.improve.values import Change, Proposal

pytestmark = pytest.mark.anyio

BOTS = "/console/bots"
COACH = f"{BOTS}/coach"
HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{ 7*7 }}\u202e"
_KEY = PersonaKey(tenant="default", bot="coach")
_CHAT = ChatKey(tenant="default", bot="coach", chat="telegram:42")
_ANN = Author(who="default/ann", run_id="run_1")


@contextlib.asynccontextmanager
async def coached(folder: Path) -> AsyncIterator[Server]:
    """A server with the bot `coach`, which has files, a chat, a job and a proposal."""
    coach = Bot(description=f"Helps people. {HOSTILE}", budget=DayBudget(requests=50))
    async with console(folder, bots={"coach": coach}) as server:
        store = server.parts.documents
        files = StoredPersonas(store)
        for text in ("Be kind.\n", "Be kind.\nBe brief.\n"):
            await files.write(_KEY, "SOUL.md", text, author=_ANN, expected=None)
        await files.write(_KEY, "GOALS.md", f"- Ann runs 10 km {HOSTILE}\n", author=_ANN, expected=0)
        for day, who in (("2026-05-03", "default/ann"), ("2026-06-01", "default/bob")):
            origin = Provenance(who=who, chat="telegram:42", run="run_1", trust="clean")
            line = fact_line(Fact(time="09:00", text=f"{who} likes tea {HOSTILE}", provenance=origin))
            await files.write(_KEY, f"memory/{day}.md", f"{line}\n", author=_ANN, expected=0)
        turns = [
            ChatTurn(role="user", text=f"message {number} {HOSTILE}", at=1_780_000_000.0 + number, who="default/ann")
            for number in range(120)
        ]
        await StoredChats(store).add(_CHAT, turns)
        yield server


def jobs_of(server: Server) -> JobDesk:
    return desk_of(server.parts.settings, server.parts.database.jobs, server.parts.documents)


async def job_of(server: Server) -> str:
    """The id of a new job of the bot."""
    owner = Principal(id="ann", bot="coach")
    job = jobs_of(server).check(NewJob(text=f"Remind Ann {HOSTILE}", schedule=Every(every_ms=3_600_000), owner=owner))
    assert await server.parts.database.jobs.add(job, most=10, most_of_owner=None)
    return job.id


async def proposal_of(server: Server, *, after: str = "Be kind.\nBe brief.\nBe honest.\n") -> Proposal:
    """A new proposal for the file SOUL.md."""
    change = Change(path="SOUL.md", before="Be kind.\nBe brief.\n", after=after, version=2)
    proposal = Proposal(
        id="improve_1",
        tenant="default",
        bot="coach",
        focus="soul",
        made=time.time(),
        author=Author(who="default/ann", taint=("web_fetch",)),
        reviewer="practice",
        summary=f"More honest. {HOSTILE}",
        changes=(change,),
    )
    await stored_proposals(server.parts.settings, server.parts.documents).add(proposal)
    return proposal


async def soul(server: Server) -> str:
    file = await StoredPersonas(server.parts.documents).read(_KEY, "SOUL.md")
    assert file is not None
    return file.text


def check_page(page: Page) -> None:
    """Checks what holds for every page: hostile text is text, fields have labels, and there is one heading."""
    assert page.status == 200, page.text
    assert not page.tree.css("main script, img[onerror], [style], style")
    assert "\u202e" not in page.html
    assert "{{" not in page.text.replace("{{ 7*7 }}", "")
    labels = {label.attributes["for"] for label in page.tree.css("label")}
    assert {each.attributes["id"] for each in page.tree.css("textarea, select, input:not([type=hidden])")} == labels
    assert len(page.tree.css("h1")) == 1
    assert all(each.attributes.get("scope") for each in page.tree.css("th"))
    assert all(page.tree.css(f"#{each.attributes['aria-labelledby']}") for each in page.tree.css("[aria-labelledby]"))


async def opens(boss: Browser, *paths: str) -> list[Page]:
    pages = [await boss.opens(path) for path in paths]
    for page in pages:
        check_page(page)
    return pages


async def test_every_page_about_a_bot_shows_hostile_texts_as_text(tmp_path: Path) -> None:
    async with coached(tmp_path) as server, browser(server) as ada:
        job, proposal = await job_of(server), await proposal_of(server)
        await ada.signs_in(ADMIN, then=BOTS)
        await opens(
            ada,
            BOTS,
            COACH,
            f"{COACH}/files",
            f"{COACH}/file?path=SOUL.md",
            f"{COACH}/file?path=memory/2026-05-03.md",
            f"{COACH}/memory",
            f"{COACH}/memory?kind=notes",
            f"{COACH}/person?person=default/ann",
            f"{COACH}/chats",
            f"{COACH}/chat?name=telegram:42",
            f"{COACH}/jobs",
            f"{COACH}/job?job={job}",
            f"{COACH}/proposals",
            f"{COACH}/proposal?proposal={proposal.id}",
        )


async def test_the_page_of_a_bot_shows_its_settings_goals_and_budget(tmp_path: Path) -> None:
    async with coached(tmp_path) as server, browser(server) as ada:
        await ada.signs_in(ADMIN, then=COACH)
        (page,) = await opens(ada, COACH)
        assert "Ann runs 10 km" in page.text
        assert "0 / 50" in page.text
        assert "conversation:" in page.text


async def test_a_file_shows_its_versions_and_what_changed_between_any_two(tmp_path: Path) -> None:
    async with coached(tmp_path) as server, browser(server) as vera:
        await vera.signs_in(VIEWER, then=COACH)
        page, backwards = await opens(vera, f"{COACH}/file?path=SOUL.md", f"{COACH}/file?path=SOUL.md&a=2&b=1")
        assert "+Be brief." in page.text
        assert "-Be brief." in backwards.text
        assert "Be kind. Be brief." not in backwards.tree.css("pre.written")[0].text()
        assert "revert" not in page.forms()
        assert (await vera.opens(f"{COACH}/file?path=SOUL.md&a=9")).status == 404
        assert (await vera.opens(f"{COACH}/file?path=../SOUL.md")).status == 400


async def test_an_operator_puts_a_version_back_and_a_viewer_does_not(tmp_path: Path) -> None:
    async with coached(tmp_path) as server, browser(server) as vera, browser(server) as otto:
        viewed = await vera.signs_in(VIEWER, then=f"{COACH}/files")
        page = await otto.signs_in(OPERATOR, then=COACH)
        page = await otto.opens(f"{COACH}/file?path=SOUL.md")
        token = viewed.forms()["sign-out"]["token"]
        refused = await vera.posts(f"{COACH}/revert", {"token": token, "path": "SOUL.md", "version": "1"})
        assert refused.status == 403
        assert await soul(server) == "Be kind.\nBe brief.\n"
        page = await otto.sends(page, "revert")
        assert "The earlier version is back." in page.text
        assert await soul(server) == "Be kind.\n"
        newest = (await StoredPersonas(server.parts.documents).versions(_KEY, "SOUL.md"))[-1]
        assert (newest.version, newest.author.who) == (3, "default/otto")


async def test_memory_is_filtered_by_person_chat_and_month(tmp_path: Path) -> None:
    async with coached(tmp_path) as server, browser(server) as vera:
        await vera.signs_in(VIEWER, then=BOTS)
        every, ann, june, other = await opens(
            vera,
            f"{COACH}/memory",
            f"{COACH}/memory?person=default/ann",
            f"{COACH}/memory?day=2026-06",
            f"{COACH}/memory?chat=telegram:43",
        )
        assert [len(page.tree.css("article")) for page in (every, ann, june, other)] == [2, 1, 1, 0]
        assert "default/ann likes tea" in ann.text
        assert "default/bob likes tea" in june.text


async def test_a_crowded_day_is_shown_in_part_and_says_so(tmp_path: Path) -> None:
    async with coached(tmp_path) as server, browser(server) as vera:
        origins = [Provenance(who=f"default/p{number % 2}", chat="telegram:7") for number in range(300)]
        text = "\n".join(fact_line(Fact(time="10:00", text="tea", provenance=origin)) for origin in origins)
        await StoredPersonas(server.parts.documents).write(_KEY, "memory/2026-07-01.md", text, author=_ANN, expected=0)
        await vera.signs_in(VIEWER, then=BOTS)
        whole, part = await opens(vera, f"{COACH}/memory?day=2026-07", f"{COACH}/memory?day=2026-07&person=default/p1")
        assert len(whole.tree.css("article")) == 200
        assert "name a person, a chat or a day: 100" in whole.text
        assert len(part.tree.css("article")) == 150


async def test_long_lists_are_read_page_by_page(tmp_path: Path) -> None:
    async with coached(tmp_path) as server, browser(server) as vera:
        texts = {f"notes/n{number:03}.md": "note" for number in range(120)}
        await StoredPersonas(server.parts.documents).seed(_KEY, texts)
        for number in range(60):
            key = ChatKey(tenant="default", bot="coach", chat=f"telegram:{number}")
            await StoredChats(server.parts.documents).add(key, [ChatTurn(role="user", text="hi", at=1.0, who="a")])
        await vera.signs_in(VIEWER, then=BOTS)
        for start, number in ((f"{COACH}/files", 124), (f"{COACH}/chats", 60)):
            names: list[str] = []
            address: str | None = start
            while address:
                (page,) = await opens(vera, address)
                names += [each.text() for each in page.tree.css("tbody th")]
                (address,) = [each.attributes["href"] for each in page.tree.css(".more a")] or [None]
            assert len(names) == len(set(names)) == number


async def test_the_messages_of_a_chat_are_read_page_by_page_from_the_end(tmp_path: Path) -> None:
    async with coached(tmp_path) as server, browser(server) as vera:
        await vera.signs_in(VIEWER, then=BOTS)
        numbers = []
        for back in (0, 50, 100):
            (page,) = await opens(vera, f"{COACH}/chat?name=telegram:42&back={back}")
            numbers += [int(each.text().split()[1]) for each in page.tree.css("article .prose")][::-1]
        assert numbers == [*range(119, -1, -1)]


async def test_an_admin_sees_all_that_is_stored_about_a_person_and_erases_it(tmp_path: Path) -> None:
    async with coached(tmp_path) as server, browser(server) as ada, browser(server) as otto:
        job = await job_of(server)
        await otto.signs_in(OPERATOR, then=BOTS)
        assert (await otto.opens(f"{COACH}/person?person=default/ann")).status == 403
        await ada.signs_in(ADMIN, then=BOTS)
        page = await ada.opens(f"{COACH}/person?person=default/ann")
        assert "Messages 120" in page.text
        unsure = await ada.sends(page, "forget")
        assert unsure.status == 400
        assert await jobs_of(server).get(job)
        page = await ada.sends(page, "forget", sure="yes")
        assert "is erased" in page.text
        check_page(page)
        assert not await jobs_of(server).list(bot="coach")
        assert not await StoredChats(server.parts.documents).names("default", "coach")
        log = await StoredPersonas(server.parts.documents).read(_KEY, "memory/2026-05-03.md")
        assert log is not None
        assert "tea" not in log.text
        bobs = await StoredPersonas(server.parts.documents).read(_KEY, "memory/2026-06-01.md")
        assert bobs is not None
        assert "tea" in bobs.text


async def test_a_person_of_another_tenant_is_not_erased_under_the_same_name(tmp_path: Path) -> None:
    async with coached(tmp_path) as server, browser(server) as ada:
        job = await job_of(server)
        page = await ada.signs_in(ADMIN, then=f"{COACH}/files")
        fields = {"token": page.forms()["sign-out"]["token"], "person": "other/ann", "sure": "yes"}
        assert (await ada.posts(f"{COACH}/forget", fields)).status == 400
        assert await jobs_of(server).get(job)


async def test_an_operator_pauses_resumes_and_runs_a_job(tmp_path: Path) -> None:
    async with coached(tmp_path) as server, browser(server) as otto:
        job = await job_of(server)
        await otto.signs_in(OPERATOR, then=BOTS)
        (page,) = await opens(otto, f"{COACH}/job?job={job}")
        page = await otto.sends(page, "pause")
        assert "The job is paused." in page.text
        assert not (await jobs_of(server).get(job)).enabled
        page = await otto.sends(page, "resume")
        assert (await jobs_of(server).get(job)).enabled
        page = await otto.sends(page, "run")
        assert "The job is asked to run." in page.text
        check_page(page)
        assert "asked for" in page.text
        assert (await otto.sends(page, "run")).status == 409


async def test_an_operator_applies_a_proposal_and_nobody_decides_twice(tmp_path: Path) -> None:
    async with coached(tmp_path) as server, browser(server) as otto:
        proposal = await proposal_of(server)
        await otto.signs_in(OPERATOR, then=BOTS)
        (page,) = await opens(otto, f"{COACH}/proposal?proposal={proposal.id}")
        assert "+Be honest." in page.text
        assert "web_fetch" in page.text
        after = await otto.sends(page, "apply")
        assert "Each file has a new version." in after.text
        assert await soul(server) == "Be kind.\nBe brief.\nBe honest.\n"
        assert (await otto.sends(page, "reject", note="no")).status == 409


async def test_a_rejected_proposal_changes_no_file(tmp_path: Path) -> None:
    async with coached(tmp_path) as server, browser(server) as otto:
        proposal = await proposal_of(server)
        await otto.signs_in(OPERATOR, then=BOTS)
        page = await otto.opens(f"{COACH}/proposal?proposal={proposal.id}")
        page = await otto.sends(page, "reject", note=f"too bold {HOSTILE}")
        check_page(page)
        assert "too bold" in page.text
        assert await soul(server) == "Be kind.\nBe brief.\n"


async def test_people_of_another_tenant_see_nothing_of_this_one(tmp_path: Path) -> None:
    async with coached(tmp_path) as server, browser(server) as eve:
        job, proposal = await job_of(server), await proposal_of(server)
        page = await eve.signs_in(Principal(id="eve", tenant="other", role="admin"), then=f"{COACH}/files")
        check_page(page)
        assert "SOUL.md" not in page.text
        for path in (
            f"{COACH}/files?tenant=default",
            f"{COACH}/file?path=SOUL.md",
            f"{COACH}/job?job={job}",
            f"{COACH}/job?job={job}&tenant=default",
            f"{COACH}/proposal?proposal={proposal.id}",
            f"{COACH}/person?person=default/ann",
        ):
            refused = await eve.opens(path)
            assert refused.status in (400, 403, 404), path
            assert "kind" not in refused.text
        fields = {"token": page.forms()["sign-out"]["token"], "job": job, "tenant": "default"}
        assert (await eve.posts(f"{COACH}/pause", fields)).status == 403
        assert (await eve.posts(f"{COACH}/pause", {**fields, "tenant": ""})).status == 404
        assert (await jobs_of(server).get(job)).enabled
        assert "telegram:42" not in (await eve.opens(f"{COACH}/chats")).text
        assert not (await eve.opens(f"{COACH}/chat?name=telegram:42")).tree.css("article")


async def test_the_page_of_a_bot_shows_the_tools_of_the_tenant_of_the_page_and_of_no_other(tmp_path: Path) -> None:
    """The tools of the people who run the server are as private as those of every other tenant."""
    (tmp_path / "tenants").mkdir()
    write_definitions(tmp_path / "shared.jsonl", "tool_of_all")
    for tenant in ("default", "acme"):
        write_definitions(tmp_path / "tenants" / f"{tenant}.jsonl", f"tool_of_{tenant}")
        write_tenant(tmp_path / "tenants", tenant, f"{tenant}.jsonl")
    folder = TenantSettings(folder=str(tmp_path / "tenants"))
    async with (
        console(tmp_path, catalog=str(tmp_path / "shared.jsonl"), bots={"coach": Bot()}, tenants=folder) as server,
        aiohttp.ClientSession(base_url=server.url, headers={"accept": "application/json"}) as web,
    ):
        people = [Principal(id="ada", tenant=tenant, role="admin") for tenant in ("default", "acme", "other")]
        runners, acme, other = [await server.key(person) for person in people]
        for key, address, private in (
            (other, COACH, []),
            (acme, COACH, ["tool_of_acme"]),
            (runners, COACH, ["tool_of_default"]),
            (runners, f"{COACH}?tenant=acme", ["tool_of_acme"]),
        ):
            async with web.get(address, headers={"authorization": f"Bearer {key}"}) as answer:
                tools = (await answer.json())["tools"]["conversation"]["names"]
            assert tools == ["tool_of_all", *private]


async def test_an_admin_of_the_server_looks_at_another_tenant_and_links_keep_it(tmp_path: Path) -> None:
    async with coached(tmp_path) as server, browser(server) as ada:
        key = PersonaKey(tenant="acme", bot="coach")
        await StoredPersonas(server.parts.documents).write(key, "SOUL.md", "For Acme.\n", author=_ANN, expected=0)
        await ada.signs_in(ADMIN, then=BOTS)
        page, listed = await opens(ada, f"{COACH}/file?path=SOUL.md&tenant=acme", f"{BOTS}?tenant=acme")
        assert "For Acme." in page.text
        pages = [each.attributes["href"] or "" for each in page.tree.css("main .filters a, main .back a")]
        assert all("tenant=acme" in address for address in pages)
        assert "tenant=acme" in (listed.tree.css("tbody th a")[0].attributes["href"] or "")


async def test_a_program_reads_the_same_as_json(tmp_path: Path) -> None:
    async with coached(tmp_path) as server, aiohttp.ClientSession(base_url=server.url) as web:
        job = await job_of(server)
        headers = {"authorization": f"Bearer {await server.key(OPERATOR)}", "accept": "application/json"}
        async with web.get(f"{COACH}/file?path=SOUL.md", headers=headers) as answer:
            file = await answer.json()
        assert (file["file"]["text"], file["compared"]) == ("Be kind.\nBe brief.\n", {"a": 1, "b": 2})
        async with web.get(f"{COACH}/jobs", headers=headers) as answer:
            assert [each["id"] for each in (await answer.json())["jobs"]] == [job]
        async with web.post(f"{COACH}/pause", json={"job": job}, headers=headers) as answer:
            assert (await answer.json())["done"] is True
        assert not (await jobs_of(server).get(job)).enabled


async def test_whoever_has_no_level_sees_no_bots_and_without_bots_there_is_no_section(tmp_path: Path) -> None:
    async with coached(tmp_path) as server, browser(server) as nina:
        assert (await nina.signs_in(NOBODY, then=BOTS)).status == 403
    async with console(tmp_path) as server, aiohttp.ClientSession(base_url=server.url) as web:
        headers = {"authorization": f"Bearer {await server.key(ADMIN)}", "accept": "application/json"}
        async with web.get(BOTS, headers=headers) as answer:
            assert (await answer.json())["error"]["code"] == "unknown_page"
