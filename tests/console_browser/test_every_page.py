"""Every page of the console in a real browser, in front of a server whose data is hostile everywhere."""

from __future__ import annotations

import pytest

from tests.console_browser.conftest import HostileServer

pytest.importorskip("playwright", reason="Playwright is missing; `make console-check` installs it")

from tests.console_browser.survey import Survey, surveyed

pytestmark = pytest.mark.timeout(3_000)


@pytest.fixture(scope="module")
def survey(chromium: str, hostile_server: HostileServer) -> Survey:
    return surveyed(chromium, hostile_server.url, hostile_server.key)


def test_the_pages_are_found_by_their_links(survey: Survey) -> None:
    sections = {page.split("?")[0].split("/")[2] for page in survey.pages}
    assert "authored" in sections
    assert len(survey.pages) > 10
    print(f"{len(survey.pages)} pages, {len(survey.files)} files", *survey.pages, sep="\n")


@pytest.mark.parametrize("thing", ["status", "payloads", "layout", "axe", "keyboard", "script"])
def test_nothing_is_wrong_with_any_page(survey: Survey, thing: str) -> None:
    problems = survey.problems[thing]
    assert not problems, "\n".join([f"{len(problems)} problems", *problems[:60]])
