"""Rows of the trail as events of the Open Cybersecurity Schema Framework (OCSF 1.3.0), class API Activity (6003), which log
collectors and SIEM systems read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolcaddie.core.storage import EventRecord

VERSION = "1.3.0"
"""Version of the schema."""

_CATEGORY, _CLASS = 6, 6003
"""Application Activity, API Activity."""
_OTHER = 99
"""Activity of a row that is none of create, read, update and delete. A row does not say what its tool does."""
_UNKNOWN, _SUCCESS, _FAILURE, _ELSE = 0, 1, 2, 99
_STATUS = {_UNKNOWN: "Unknown", _SUCCESS: "Success", _FAILURE: "Failure", _ELSE: "Other"}
_INFORMATIONAL, _LOW, _MEDIUM = 1, 2, 3
"""Severities."""


def ocsf_event(
    record: EventRecord, *, row: int, principal: str | None, tenant: str | None, product_version: str
) -> Mapping[str, Any]:
    """Returns a row of the trail as an event. `row`: its id; `principal`, `tenant`: who made the run, if that is known."""
    data = record.data
    status = _status(record)
    tool = data.get("name")
    operation = tool if isinstance(tool, str) and tool else record.kind
    call = data.get("id")
    return {
        "activity_id": _OTHER,
        "activity_name": record.kind,
        "category_uid": _CATEGORY,
        "category_name": "Application Activity",
        "class_uid": _CLASS,
        "class_name": "API Activity",
        "type_uid": _CLASS * 100 + _OTHER,
        "type_name": "API Activity: Other",
        "time": round(record.at * 1000),
        "severity_id": _severity(record, status),
        "status_id": status,
        "status": _STATUS[status],
        **({"status_detail": detail} if (detail := _detail(record)) else {}),
        "message": f"{record.kind} {operation}" if operation != record.kind else record.kind,
        "metadata": {
            "version": VERSION,
            "product": {"name": "Toolcaddie", "vendor_name": "Toolcaddie", "version": product_version},
            "uid": str(row),
            "event_code": record.kind,
            "correlation_uid": record.run_id,
            "sequence": record.seq,
            "log_name": "trail",
            **({"tenant_uid": tenant} if tenant else {}),
        },
        "actor": {
            "user": {"uid": principal or "unknown", "name": principal or "unknown"},
            "session": {"uid": record.run_id},
        },
        "api": {
            "operation": operation,
            "service": {"name": str(data.get("source") or "toolcaddie")},
            **({"request": {"uid": call}} if isinstance(call, str) and call else {}),
            **({"response": {"error": str(data["error"])}} if data.get("error") else {}),
        },
        "src_endpoint": {"svc_name": "toolcaddie"},
        **({"resources": [{"name": operation, "type": "tool"}]} if operation != record.kind else {}),
        "unmapped": data,
    }


def _status(record: EventRecord) -> int:
    data = record.data
    if record.kind == "call_unknown":
        return _UNKNOWN
    if record.kind == "call_decided":
        return {"allow": _SUCCESS, "deny": _FAILURE}.get(data.get("verdict", ""), _ELSE)
    if record.kind in ("approval_closed", "approval_applied"):
        return _SUCCESS if data.get("status") in ("approved", "used") else _FAILURE
    return _FAILURE if data.get("error") or data.get("status") == "failed" else _SUCCESS


def _severity(record: EventRecord, status: int) -> int:
    if record.kind in ("call_unknown", "claims_unsupported"):
        return _MEDIUM
    return _LOW if status == _FAILURE else _INFORMATIONAL


def _detail(record: EventRecord) -> str:
    """Returns the reason of a decision or an end, if the row has one."""
    return str(record.data.get("reason") or record.data.get("error") or "")
