"""Facts about this machine from /proc, short and structured. psutil reads what it reads well; the rest is read here."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from toolcaddie.core.errors import HostError
from toolcaddie.tools.host.extra import loaded

InfoType = Literal["cpuinfo", "meminfo", "loadavg", "uptime", "version", "mounts"]

_SHOWN_MOUNTS = 200
_TEXT_LENGTH = 300
"""The largest number of characters of a text that comes from /proc."""


def facts(info_type: InfoType) -> dict[str, Any]:
    """Returns the facts of one kind. Raises `HostError` if they cannot be read."""
    try:
        return _FACTS[info_type]()
    except OSError as error:
        raise HostError(f"{info_type} cannot be read: {error.strerror} ({error.filename})") from error


def _cpuinfo() -> dict[str, Any]:
    psutil = _psutil()
    lines = _read("/proc/cpuinfo").splitlines()
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith(("model name", "Model"))), "")
    frequency = psutil.cpu_freq()
    return {
        "model": model[:_TEXT_LENGTH] or os.uname().machine,
        "architecture": os.uname().machine,
        "logical_processors": psutil.cpu_count(),
        "cores": psutil.cpu_count(logical=False),
        "mhz": round(frequency.current) if frequency else None,
    }


def _meminfo() -> dict[str, Any]:
    psutil = _psutil()
    memory, swap = psutil.virtual_memory(), psutil.swap_memory()
    return {
        "total_bytes": memory.total,
        "available_bytes": memory.available,
        "used_percent": memory.percent,
        "swap_total_bytes": swap.total,
        "swap_used_bytes": swap.used,
    }


def _loadavg() -> dict[str, Any]:
    one, five, fifteen, running, *_ = _read("/proc/loadavg").split()
    runnable, _, threads = running.partition("/")
    return {
        "minutes_1": float(one),
        "minutes_5": float(five),
        "minutes_15": float(fifteen),
        "runnable_threads": int(runnable),
        "threads": int(threads),
        "logical_processors": os.cpu_count(),
    }


def _uptime() -> dict[str, Any]:
    seconds = float(_read("/proc/uptime").split()[0])
    booted = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - seconds))
    return {"seconds": int(seconds), "days": round(seconds / 86_400, 1), "booted": booted}


def _version() -> dict[str, Any]:
    names = os.uname()
    return {
        "system": names.sysname,
        "kernel": names.release,
        "build": names.version[:_TEXT_LENGTH],
        "architecture": names.machine,
        "hostname": names.nodename[:_TEXT_LENGTH],
        "distribution": _distribution(),
    }


def _mounts() -> dict[str, Any]:
    partitions = _psutil().disk_partitions(all=True)
    mounts = [
        {
            "path": partition.mountpoint[:_TEXT_LENGTH],
            "device": partition.device[:_TEXT_LENGTH],
            "type": partition.fstype[:_TEXT_LENGTH],
            "options": partition.opts[:_TEXT_LENGTH],
        }
        for partition in partitions[:_SHOWN_MOUNTS]
    ]
    return {"mounts": mounts, "left_off": max(0, len(partitions) - _SHOWN_MOUNTS)}


_FACTS: dict[InfoType, Callable[[], dict[str, Any]]] = {
    "cpuinfo": _cpuinfo,
    "meminfo": _meminfo,
    "loadavg": _loadavg,
    "uptime": _uptime,
    "version": _version,
    "mounts": _mounts,
}


def _distribution() -> str:
    """Returns the name that the distribution gives itself; empty: it gives none."""
    path = Path("/etc/os-release")
    lines = path.read_text("utf-8", "replace").splitlines() if path.is_file() else []
    for line in lines:
        if line.startswith("PRETTY_NAME="):
            return line.partition("=")[2].strip("\"'")[:_TEXT_LENGTH]
    return ""


def _read(path: str) -> str:
    return Path(path).read_text("utf-8", "replace")


def _psutil() -> ModuleType:
    return loaded("psutil", "this needs psutil")
