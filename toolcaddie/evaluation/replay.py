"""Compares the tools that a recorded run selected and called with those that another configuration selects: `eval replay`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from toolcaddie.core.catalog import Catalog
from toolcaddie.core.errors import RequestError
from toolcaddie.core.schema import definition_tokens
from toolcaddie.core.selection import Selection
from toolcaddie.evaluation.recorded import RecordedRun


@dataclass(frozen=True, slots=True, kw_only=True)
class CalledTool:
    """A tool that the run called."""

    name: str
    before: bool
    """True if the run had selected it."""
    after: bool
    """True if the other configuration selects it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """The selection of a recorded run ("before"), compared with that of another configuration on the present catalog
    ("after")."""

    run_id: str
    message: str
    preset: str
    """Preset of the recorded run."""
    added: tuple[str, ...]
    """Tools that only the other configuration selects."""
    removed: tuple[str, ...]
    """Tools that only the run selected."""
    kept: int
    """Number of tools that both selected."""
    called: tuple[CalledTool, ...]
    tokens_before: int
    tokens_after: int
    no_match_before: bool
    no_match_after: bool
    notes: tuple[str, ...]
    """Reasons why the comparison is not exact, one text for each."""

    @property
    def verdict(self) -> str:
        """The effect that the change would have had on this run, in words."""
        gained = sum(tool.after and not tool.before for tool in self.called)
        lost = sum(tool.before and not tool.after for tool in self.called)
        if not self.called:
            return "no tool was called, so nothing says which selection is better"
        if gained and not lost:
            return f"better: {gained} more of the {len(self.called)} tools called would have been selected"
        if lost and not gained:
            return f"worse: {lost} of the {len(self.called)} tools called would not have been selected"
        if gained:
            return f"mixed: {gained} more of the {len(self.called)} tools called, {lost} fewer"
        if all(tool.after for tool in self.called):
            return f"the same: every tool called is in both ({len(self.called)})"
        return f"the same: {sum(tool.after for tool in self.called)} of {len(self.called)} tools called are in both"


def replayed(run: RecordedRun, selection: Selection, catalog: Catalog) -> Replay:
    """Compares a run with `selection`, which another configuration made for `run.messages` on the present catalog.

    Raises `RequestError` if the trail has no message to select for.
    """
    check_replayable(run)
    before, after = set(run.selected), set(selection.names)
    return Replay(
        run_id=run.run_id,
        message=run.message,
        preset=run.preset,
        added=tuple(name for name in selection.names if name not in before),
        removed=tuple(name for name in run.selected if name not in after),
        kept=len(before & after),
        called=tuple(CalledTool(name=name, before=name in before, after=name in after) for name in run.used),
        tokens_before=run.tokens_selected or _tokens(run.selected, catalog),
        tokens_after=selection.tokens_selected,
        no_match_before=run.no_match,
        no_match_after=selection.no_match,
        notes=tuple(_notes(run, catalog)),
    )


def check_replayable(run: RecordedRun) -> None:
    """Raises `RequestError` if the trail has no message to select for."""
    if not run.message.strip():
        raise RequestError(
            f"run {run.run_id} cannot be replayed: the trail has no words of its message; replay another run"
        )


def _notes(run: RecordedRun, catalog: Catalog) -> list[str]:
    """Returns the reasons why the comparison is not exact, such as a changed catalog."""
    notes = []
    if run.catalog_version != catalog.version:
        missing_names = [name for name in run.selected if catalog.position(name) is None]
        lacking = f"; it no longer has these selected tools: {', '.join(missing_names[:5])}" if missing_names else ""
        more = f" and {len(missing_names) - 5} more" if len(missing_names) > 5 else ""
        notes.append(
            f"the catalog has changed: it has {len(catalog)} tools, and had {run.catalog_size} at the time of the run"
            f"{lacking}{more}; the replay selects from the present catalog"
        )
    elif run.catalog_size != len(catalog):
        notes.append(f"the run could see {run.catalog_size} of the {len(catalog)} tools; the replay sees all of them")
    if run.cut:
        notes.append("the trail has only the beginning of a message; the replay selects without the rest")
    if run.classified is not None:
        notes.append(
            f"a model named categories for the run ({', '.join(run.classified) or 'none'}); the replay does not ask it again"
        )
    return notes


def _tokens(names: Sequence[str], catalog: Catalog) -> int:
    return definition_tokens(tool for name in names if (tool := catalog.get(name)) is not None)
