"""`toolcaddie resume`: continues a run that waited for a person's approval."""

from __future__ import annotations

import sys
from typing import Any

import click

from toolcaddie.core.errors import RequestError
from toolcaddie.doors.cli.conversations import keep_resumed
from toolcaddie.doors.cli.lost import settle_lost_runs
from toolcaddie.doors.cli.options import run_options, settings_of
from toolcaddie.doors.cli.output import json_option
from toolcaddie.doors.cli.root import Common
from toolcaddie.doors.cli.run import finish, opened, print_result, questions_of, waiting_printed
from toolcaddie.doors.cli.steps import Steps
from toolcaddie.runtime import Runtime


@click.command(
    name="resume",
    epilog="\b\nExamples:\n  toolcaddie resume run_0123 --catalog gym",
)
@click.argument("run_id")
@run_options
@json_option
@click.pass_obj
def command(common: Common, /, run_id: str, as_json: bool, **flags: Any) -> None:
    """Continue RUN_ID, which waited for a person's approval.

    Answer its questions first (`toolcaddie approvals`), and name the same --catalog and --box as in the command that
    began it.
    """
    settings = settings_of(common, **flags)
    live = sys.stdout.isatty() and not as_json
    with (
        waiting_printed(as_json=as_json),
        Steps(quiet=as_json, live=live) as steps,
        opened(settings, create=False) as (runner, parts),
    ):
        runner.run(settle_lost_runs(parts.database))
        runner.run(_check_tools(run_id, parts.runtime))
        result = finish(runner, parts, parts.runtime.resume_stream(run_id), steps, questions_of(as_json=as_json))
        runner.run(keep_resumed(parts, result))
        degraded = parts.runtime.degraded
    print_result(result, steps.progress, degraded, as_json=as_json, live=live)


async def _check_tools(run_id: str, runtime: Runtime) -> None:
    """Raises `RequestError` if the catalog lacks a tool that the run waits to call, and that was not refused. The run still waits
    then, and its answers still count."""
    tools = dict.fromkeys(
        (approval.principal.tenant, approval.tool)
        for approval in await runtime.questions(run_id)
        if approval.status != "refused"
    )
    names = ", ".join([name for tenant, name in tools if not await _has_tool(runtime, tenant, name)])
    if not names:
        return
    raise RequestError(
        f"{run_id} waits to call {names}, which is not in the catalog; name the same --catalog and --box as in the "
        "command that began it, or refuse the call (`toolcaddie approvals deny`) if the tool is gone. The run still waits",
        param="catalog",
    )


async def _has_tool(runtime: Runtime, tenant: str, name: str) -> bool:
    async with runtime.holding(tenant):
        return runtime.catalogs.snapshot(tenant).get(name) is not None
