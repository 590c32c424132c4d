"""Imports: modules that only compute are fine, modules that reach the machine are refused, all others are shown."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from toolcaddie.tools.authored.values import Finding

# fmt: off
_HARMLESS = frozenset({
    "abc", "base64", "binascii", "bisect", "calendar", "cmath", "collections", "collections.abc", "colorsys", "copy", "csv",
    "dataclasses", "datetime", "decimal", "difflib", "enum", "fractions", "functools", "graphlib", "hashlib", "heapq",
    "hmac", "html", "ipaddress", "itertools", "json", "math", "numbers", "re", "statistics", "string", "textwrap", "typing",
    "unicodedata", "urllib.parse", "zoneinfo",
})
"""Modules that compute on values and give no way to anything else by their public names."""
_MACHINE = frozenset({
    "_ctypes", "_io", "_posixsubprocess", "_socket", "_thread", "aiohttp", "asyncio", "asyncore", "atexit", "builtins",
    "cffi", "cloudpickle", "code", "codeop", "commands", "cPickle", "concurrent", "cProfile", "ctypes", "dill",
    "faulthandler", "fcntl", "ftplib", "gc", "glob", "http", "httplib", "httpx", "imaplib", "imp", "importlib", "inspect",
    "io", "jsonpickle", "linecache", "marshal", "mmap", "multiprocessing", "nntplib", "nt", "os", "paramiko", "pathlib",
    "pdb", "pexpect", "pickle", "pip", "pkgutil", "platform", "poplib", "posix", "posixpath", "profile", "psutil", "pty",
    "pwd", "pycurl", "requests", "resource", "runpy", "sched", "select", "selectors", "shelve", "shutil", "signal", "site",
    "smtplib", "socket", "socketserver", "spwd", "ssl", "subprocess", "sys", "sysconfig", "syslog", "telnetlib", "tempfile",
    "termios", "threading", "trace", "traceback", "tty", "types", "urllib", "urllib.request", "urllib2", "urllib3",
    "webbrowser", "winreg", "xmlrpc", "zipimport",
})
# fmt: on
"""Modules that reach files, processes, the network, the interpreter or memory."""


def is_harmless(module: str) -> bool:
    """Returns whether a module is known to only compute."""
    return module in _HARMLESS


def modules(tree: ast.Module) -> Iterator[Finding]:
    """Yields a finding for each import of a module that is not known to only compute."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                yield from _judged(name.name, node.lineno)
        elif isinstance(node, ast.ImportFrom):
            yield from _judged_names(node)


def _judged_names(node: ast.ImportFrom) -> Iterator[Finding]:
    module = node.module or ""
    if node.level or any(name.name == "*" for name in node.names):
        text = "It imports names that the source does not show."
        yield Finding(severity="warning", line=node.lineno, text=text)
    submodules = [f"{module}.{name.name}" for name in node.names]
    if not all(name in _HARMLESS for name in submodules):
        yield from _judged(module, node.lineno)
    for name in node.names:
        if name.name.startswith("_"):
            text = f"It imports {name.name}, an inner part of {module}."
            yield Finding(severity="warning", line=node.lineno, text=text)


def _judged(module: str, line: int) -> Iterator[Finding]:
    package = module.partition(".")[0]
    if module in _MACHINE or (package in _MACHINE and module not in _HARMLESS):
        text = f"It imports {module}, which reaches files, processes, the network or the interpreter."
        yield Finding(severity="refused", line=line, text=text)
    elif module not in _HARMLESS:
        text = f"It imports {module or 'a module beside it'}, which is not among the modules known to only compute."
        yield Finding(severity="warning", line=line, text=text)
