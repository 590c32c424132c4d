"""What the checks of Python source show to its reader, by class. They contain nothing: the sandbox does."""

from __future__ import annotations

from pathlib import Path

import pytest

from security.corpora import texts_of
from toolcaddie.tools.authored.checks.python import findings

CORPORA = Path(__file__).parents[4] / "shared" / "corpora"


def inside(source: str) -> str:
    """The lines as the body of a function, so that nothing is shown only because it runs when the tool is loaded."""
    return "def run(value):\n" + "".join(f"    {line}\n" for line in source.split("\n"))


SHOWN = {
    "process": "import os\nreturn os.system(value)",
    "process, another name": "from subprocess import run as go\nreturn go(value)",
    "network": "import socket\nreturn socket.create_connection((value, 80))",
    "network by a library": "import urllib.request\nreturn urllib.request.urlopen(value)",
    "memory of the process": "import ctypes\nreturn ctypes.CDLL(None)",
    "loading of objects": "import pickle\nreturn pickle.loads(value)",
    "interpreter": "import sys\nreturn sys.modules",
    "garbage collector": "import gc\nreturn gc.get_objects()",
    "unknown module": "import something\nreturn something.go(value)",
    "everything of a module": "import random\nreturn random._os",
    "code": "return eval(value)",
    "code under another name": "go = exec\ngo(value)",
    "compiled code": "return compile(value, 'a', 'eval')",
    "import by name": "return __import__(value)",
    "builtins": "return __builtins__['open']",
    "module by another module": "import json\nreturn json.codecs.sys",
    "class of a value": "return value.__class__.__mro__",
    "subclasses": "return ().__class__.__base__.__subclasses__()",
    "globals of a function": "return (lambda: 0).__globals__",
    "code object": "return (lambda: 0).__code__.replace(co_code=b'')",
    "frame of a generator": "return (x for x in ()).gi_frame.f_back.f_globals",
    "frame of an error": "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    return error.__traceback__.tb_frame",
    "attribute by name": "return getattr(value, '__class__')",
    "attribute by a computed name": "return getattr(value, '_' * 2 + 'class' + '_' * 2)",
    "attribute by a name in a variable": "name = '_' * 2 + 'class' + '_' * 2\nreturn getattr(value, name, None)",
    "attribute by pieces": "name = '__' + value\nreturn getattr(value, name, None)",
    "attribute by a number of a letter": "return getattr(value, chr(95) * 2 + 'class')",
    "attribute by a joined name": "return getattr(value, ''.join(['__', 'class', '__']))",
    "attribute by a function under another name": "get = getattr\nreturn get(value, 'name')",
    "attribute by a function that is handed on": "return list(map(getattr, [value], ['name']))",
    "attribute by a function as a default": "return (lambda get=getattr: get(value, 'name'))()",
    "attribute by a function in a list": "return [setattr][0](value, 'name', 1)",
    "module in a harmless one": "import json\nreturn json.codecs.open(value)",
    "module from a harmless one": "from json import codecs\nreturn codecs.open(value)",
    "module in a harmless one by its name": "import json\nreturn getattr(json, 'codecs').open(value)",
    "code by a type hint": "import typing\nreturn typing.get_type_hints(value)",
    "attribute by a format": "return '{0.__class__}'.format(value)",
    "attribute by a format from elsewhere": "return value.format(value)",
    "attribute by a map of formats": "return '{a.b}'.format_map(value)",
    "attribute in a format in the text": "return f'{value.__class__}'",
    "attribute in a nested format": "return f'{value:{value.__class__}}'",
    "attribute in a pattern": "match value:\n    case object(__class__=kind):\n        return kind",
    "text that decodes": "return bytes.fromhex('5f5f').decode()",
    "class": "class Trick:\n    def __getattr__(self, name):\n        return name\nreturn Trick()",
    "class made at run time": "return type('Trick', (), {'a': 1})",
    "class by another class": "class Trick(metaclass=value):\n    pass",
    "decorator": "@value\ndef inner():\n    pass",
    "coroutine": "async def inner():\n    pass\nreturn inner().cr_frame",
    "files": "with open(value) as file:\n    return file.read()",
    "debugger": "breakpoint()",
    "names of the module": "return globals()",
    "endless loop": "while True:\n    pass",
    "number of any size": "return 9 ** 9 ** 9",
    "text of any size": "return 'x' * 10 ** 10",
    "pattern without end": "import re\nreturn re.match(r'(a+)+$', value)",
    "letters that look alike": "return ｅｖａｌ(value)",
    "hidden letters": "name = 'a\u202eb'\nreturn name",
    "not Python": "return value value",
}
"""A line or two for each class of ways out, or of ways to hide one."""


@pytest.mark.parametrize("name", SHOWN)
def test_each_class_of_ways_out_is_shown(name: str) -> None:
    assert findings(inside(SHOWN[name])), SHOWN[name]


def test_a_default_that_is_computed_and_code_beside_functions_are_shown_because_they_run_unasked() -> None:
    assert findings("def run(value=print(1)):\n    return value\n")
    assert findings("def run(value):\n    return value\nrun(1)\n")


def test_a_declared_encoding_is_refused_because_the_reader_sees_other_text() -> None:
    (first, *_) = findings("# -*- coding: utf-7 -*-\ndef run(value):\n    return value\n")
    assert (first.severity, first.line) == ("refused", 1)


def test_what_is_nested_too_deeply_to_be_read_is_refused() -> None:
    assert findings("def run(value):\n    return " + "(" * 5_000 + ")" * 5_000)[0].severity == "refused"


ORDINARY = {
    "part of a package": "import json\ntry:\n    return json.loads(value)\nexcept json.decoder.JSONDecodeError:\n    return None",
    "words": "return {word: value.count(word) for word in value.split()}",
    "numbers": "import math\nreturn round(math.sqrt(float(value)) * 100) / 100",
    "dates": "from datetime import date\nreturn (date.fromisoformat(value) - date(2026, 1, 1)).days",
    "patterns": "import re\nreturn re.findall(r'[A-Z]{2}\\d+', value)",
    "tables": "import csv\nreturn list(csv.reader(value.splitlines()))",
    "errors": "try:\n    return int(value)\nexcept ValueError as error:\n    raise RuntimeError('no number') from error",
    "loops": "seen = set()\nfor each in value:\n    if each in seen:\n        continue\n    seen.add(each)\nreturn sorted(seen)",
    "formats": "return '{}: {:.2f}'.format(value, 1.5) + f'{value!r:>10}'",
    "searching": "while True:\n    value = value // 2\n    if value < 10:\n        return value",
    "caches": "from functools import lru_cache\n@lru_cache\ndef inner(n):\n    return n\nreturn inner(value)",
    "fields by name": "return sorted(value, key=lambda each: getattr(each, value, 0))",
    "a class of values": (
        "class Pair:\n    def __init__(self, a):\n        self.a = a\n"
        "    def __lt__(self, other):\n        return self.a < other.a\nreturn Pair(value)"
    ),
    "common names": "def inner(exit, input):\n    return exit or input\nreturn inner(1, 2)",
    "ends by an exception": "import itertools\nwhile True:\n    value = next(value)",
    "same kind": "return value.__class__()",
    "docstring": '"""Explains __class__, eval(x) and {0.__class__}."""\nreturn value',
}


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_functions_are_not_shown(name: str) -> None:
    assert not findings(inside(ORDINARY[name]))


@pytest.mark.parametrize(
    ("name", "least", "most"), [("python_escape.txt", 0.95, 1.0), ("python_benign.txt", 0.0, 0.03)]
)
def test_the_share_of_the_corpus_that_is_shown(name: str, least: float, most: float) -> None:
    sources = texts_of(CORPORA, name)
    if sources is None:
        pytest.skip(f"{name} is not beside the repository")
    share = sum(bool(findings(source)) for source in sources) / len(sources)
    assert least <= share <= most
