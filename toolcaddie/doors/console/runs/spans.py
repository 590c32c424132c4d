"""Finds in the events of a run what took time: choosing tools, answers of models, calls, waits for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from toolcaddie.core.storage import EventRecord

SpanKind = Literal["choice", "model", "call", "failed", "meta", "wait", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Something that took time. `start`, `end`: seconds since the epoch."""

    kind: SpanKind
    label: str
    start: float
    end: float
    is_open: bool = False
    """True: it has not ended; `end` is the moment of the last event."""

    @property
    def seconds(self) -> float:
        return self.end - self.start


def spans_of(events: Sequence[EventRecord]) -> Sequence[Span]:
    """Returns the spans of a run in the order of their start."""
    spans: list[Span] = []
    pending: dict[tuple[str, str], Span] = {}
    """Spans that have begun and not ended: by its sort, and the round or the id of the call."""
    for event in events:
        data, at = event.data, event.at
        match event.kind:
            case "request_classified" | "tools_selected":
                label = "classifier" if event.kind == "request_classified" else "choice of tools"
                spans.append(Span(kind="choice", label=label, start=at - _seconds(data), end=at))
            case "model_asked":
                label = f"round {data.get('round')}: {data.get('model') or data.get('provider') or 'model'}"
                pending["model", str(data.get("round"))] = Span(kind="model", label=label, start=at, end=at)
            case "model_answered":
                key = ("model", str(data.get("round")))
                label = f"round {data.get('round')}: {data.get('model') or 'model'}"
                before = pending.pop(key, None) or Span(kind="model", label=label, start=at - _seconds(data), end=at)
                spans.append(_ended(before, at))
            case "meta_called":
                spans.append(Span(kind="meta", label=str(data.get("name")), start=at, end=at))
            case "call_intended":
                key = ("call", str(data.get("id")))
                pending[key] = Span(kind="call", label=str(data.get("name")), start=at, end=at)
            case "call_finished":
                pending.pop(("call", str(data.get("id"))), None)
                kind: SpanKind = "failed" if data.get("error") else "call"
                spans.append(Span(kind=kind, label=str(data.get("name")), start=at - _seconds(data), end=at))
            case "call_unknown":
                begun = pending.pop(("call", str(data.get("id"))), None)
                start = at if begun is None else begun.start
                spans.append(Span(kind="unknown", label=str(data.get("name")), start=start, end=at))
            case "run_paused":
                pending["wait", ""] = Span(kind="wait", label=_waited_for(data), start=at, end=at)
            case "run_resumed":
                if (wait := pending.pop(("wait", ""), None)) is not None:
                    spans.append(_ended(wait, at))
            case _:
                pass
    last = max((event.at for event in events), default=0.0)
    is_over = any(event.kind in ("run_finished", "run_failed") for event in events[-3:])
    spans += [Span(kind=s.kind, label=s.label, start=s.start, end=last, is_open=not is_over) for s in pending.values()]
    return sorted(spans, key=lambda span: (span.start, span.end))


def _ended(span: Span, at: float) -> Span:
    return Span(kind=span.kind, label=span.label, start=span.start, end=at)


def _seconds(data: Mapping[str, Any]) -> float:
    value = data.get("seconds")
    return float(value) if isinstance(value, int | float) and value > 0 else 0.0


def _waited_for(data: Mapping[str, Any]) -> str:
    names: Iterable[Any] = (item.get("name") for item in data.get("waiting", ()))
    return f"waits: {', '.join(map(str, names))}".removesuffix(": ")
