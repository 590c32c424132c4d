"""`toolcaddie eval --queue`, `eval show` and `eval cancel`: evaluations that servers measure."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import click
import msgspec

from toolcaddie.app.build import database_of
from toolcaddie.app.evaluation_values import UNFINISHED, Evaluation
from toolcaddie.app.evaluations import KIND, Evaluations, handed_in_kind
from toolcaddie.app.measuring_process import Measurement
from toolcaddie.app.queues import QueueOnDemand
from toolcaddie.app.settings import Settings
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import ConfigError
from toolcaddie.doors.cli.echo import echo
from toolcaddie.doors.cli.failure import hinted
from toolcaddie.doors.cli.options import database_option, settings_of
from toolcaddie.doors.cli.output import json_option, note, print_json, print_table
from toolcaddie.doors.cli.root import Common
from toolcaddie.doors.texts import local_time
from toolcaddie.jobs.installed import REMEDY
from toolcaddie.util.user import user_name

T = TypeVar("T")

TENANT = Principal().tenant
"""The tenant of those who run the server, whose evaluations these are."""
_SHOWN = 20
_LOOK_SECONDS = 0.5


def hand_in(settings: Settings, measurement: Measurement, *, as_json: bool) -> None:
    """Hands an evaluation to the durable queue, and prints its id. Raises `ConfigError` if there can be no queue."""
    by = f"{TENANT}/{user_name()}"
    evaluation = _with_evaluations(settings, lambda each: each.begin(measurement, by=by, tenant=TENANT), create=True)
    if as_json:
        print_json({"id": evaluation.id, "status": evaluation.status})
        return
    echo(f"evaluation {evaluation.id} is queued")
    note(f"`toolcaddie serve` on this database measures it; see it with `toolcaddie eval show {evaluation.id}`")


@click.command("show", epilog="\b\nExamples:\n  toolcaddie eval show\n  toolcaddie eval show ID --wait --json")
@click.argument("evaluation_id", metavar="[ID]", required=False)
@click.option("--wait", is_flag=True, help="Wait for the end.")
@database_option
@json_option
@click.pass_obj
def show(common: Common, evaluation_id: str | None, wait: bool, database_url: str | None, as_json: bool) -> None:
    """Show an evaluation that was handed in, with its progress or figures; without ID, list the newest ones."""
    if wait and evaluation_id is None:
        raise click.UsageError("--wait goes with an ID")
    settings = settings_of(common, database_url=database_url)
    if evaluation_id is None:
        _print_list(settings, as_json=as_json)
        return

    async def read(evaluations: Evaluations) -> Evaluation:
        while True:
            evaluation = await evaluations.get(TENANT, evaluation_id)
            if not wait or evaluation.status not in UNFINISHED:
                return evaluation
            await asyncio.sleep(_LOOK_SECONDS)

    with hinted("unknown_evaluation", "`toolcaddie eval show` lists them"):
        evaluation = _with_evaluations(settings, read)
    if as_json:
        print_json(msgspec.to_builtins(evaluation))
    else:
        _print_evaluation(evaluation)


@click.command("cancel", epilog="\b\nExample:\n  toolcaddie eval cancel ID")
@click.argument("evaluation_id", metavar="ID")
@database_option
@json_option
@click.pass_obj
def cancel(common: Common, evaluation_id: str, database_url: str | None, as_json: bool) -> None:
    """End an evaluation that was handed in; one that a server measures ends within a second."""
    settings = settings_of(common, database_url=database_url)
    with hinted("unknown_evaluation", "`toolcaddie eval show` lists them"):
        _with_evaluations(settings, lambda each: each.cancel(TENANT, evaluation_id))
    if as_json:
        print_json({"id": evaluation_id})
    else:
        echo(f"evaluation {evaluation_id} is cancelled")


def _print_list(settings: Settings, *, as_json: bool) -> None:
    evaluations, _ = _with_evaluations(settings, lambda each: each.page(TENANT, limit=_SHOWN))
    if as_json:
        listed = [{**msgspec.to_builtins(each), "outcome": None} for each in evaluations]
        print_json({"evaluations": listed})
        return
    if not evaluations:
        note("there are no evaluations; hand one in with `toolcaddie eval --queue`")
        return
    rows = [(each.id, each.status, local_time(each.began), " / ".join(each.configurations)) for each in evaluations]
    print_table(("evaluation", "status", "handed in", "configurations"), rows)


def _print_evaluation(evaluation: Evaluation) -> None:
    echo(f"{evaluation.id}: {evaluation.status}, handed in {local_time(evaluation.began)} by {evaluation.by}")
    if evaluation.status == "running":
        echo(f"{evaluation.stage}: {evaluation.completed:,} of {evaluation.total:,}")
    if evaluation.error:
        echo(evaluation.error)
    if evaluation.outcome is None:
        return
    configurations: list[dict[str, Any]] = evaluation.outcome["record"]["configurations"]
    rows = [
        (each["configuration"], *(f"{each['metrics'][name]:.3f}" for name in ("recall@5", "ndcg@10")))
        for each in configurations
    ]
    print_table(("configuration", "recall@5", "ndcg@10"), rows, right=("recall@5", "ndcg@10"))
    for verdict in evaluation.outcome["verdicts"]:
        echo(verdict)


def _with_evaluations(settings: Settings, act: Callable[[Evaluations], Awaitable[T]], *, create: bool = False) -> T:
    """Returns the result of an action on the evaluations of the database. `create`: an evaluation is handed in, for which the
    database is made if it is missing, and there must be a queue."""

    async def answer() -> T:
        async with database_of(settings, create=create) as database:
            queue = QueueOnDemand(settings.database_url, database)
            queue.add({KIND: handed_in_kind(settings.jobs)})
            if create and not queue.is_available:
                raise ConfigError(f"--queue needs a database on disk and the durable queue; {REMEDY}")
            try:
                return await act(Evaluations(database.store, queue))
            finally:
                await queue.close()

    return asyncio.run(answer())
