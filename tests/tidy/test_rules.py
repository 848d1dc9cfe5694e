"""The rules see what they should: each is tried on a planted mistake, and on its look-alikes."""

from __future__ import annotations

import pytest

from tests.tidy.rules import PATH_METHODS, RULES
from tests.tidy.scan import long_functions, violations

ENGINE = "aof/segment.py"


def names(source: str, place: str = ENGINE) -> list[str]:
    return [violation.name for violation in violations(source, place=place)]


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("open('x')", "open"),
        ("reader = open", "open"),
        ("import os\nos.fsync(3)", "os.fsync"),
        ("import os as o\no.pwrite(3, b'', 0)", "os.pwrite"),
        ("from os import replace as swap\nswap('a', 'b')", "os.replace"),
        ("def f():\n    from os import unlink\n    unlink('a')", "os.unlink"),
        ("import fcntl\nfcntl.flock(3, fcntl.LOCK_EX)", "fcntl.flock"),
        ("import mmap\nmmap.mmap(-1, 10)", "mmap.mmap"),
        ("import shutil\nshutil.copytree('a', 'b')", "shutil.copytree"),
        ("import time\ntime.sleep(1)", "time.sleep"),
        ("import time\nwait(until=time.monotonic)", "time.monotonic"),
        ("from time import time_ns", "time.time_ns"),
        ("from datetime import datetime\ndatetime.now()", "datetime.datetime.now"),
        ("import datetime\ndatetime.datetime.utcnow()", "datetime.datetime.utcnow"),
        ("import random\nrandom.random()", "random.random"),
        ("from random import choice\nchoice('ab')", "random.choice"),
        ("import threading\nthreading.Lock()", "threading.Lock"),
        ("from threading import Thread as T\nT()", "threading.Thread"),
        (
            "import concurrent.futures\nconcurrent.futures.ThreadPoolExecutor()",
            "concurrent.futures.ThreadPoolExecutor",
        ),
        (
            "from concurrent.futures import ThreadPoolExecutor",
            "concurrent.futures.ThreadPoolExecutor",
        ),
        ("import struct\nstruct.pack('<I', 1)", "struct.pack"),
        ("from struct import Struct", "struct.Struct"),
        ("print('hello')", "print"),
        ("from pathlib import Path\nPath('x').read_text()", "Path.read_text"),
        ("import pathlib\npathlib.Path('x').open()", "Path.open"),
        ("(root / 'x').mkdir()", "Path.mkdir"),
        ("def f(place: Path) -> None:\n    place.unlink()", "Path.unlink"),
        (
            "class A:\n    def f(self):\n        self.index_path.write_bytes(b'')",
            "Path.write_bytes",
        ),
        ("x.parent.mkdir(exist_ok=True)", "Path.mkdir"),
        ("x.with_suffix('.new').rename(y)", "Path.rename"),
    ],
)
def test_a_planted_mistake_is_found(source: str, name: str) -> None:
    assert name in names(source)


@pytest.mark.parametrize(
    "source",
    [
        "store.open('x')",
        "files.unlink(path)",
        "self.files.rename(a, b)",
        "def open(x): ...\nopen('x')",
        "from lakebed.base.files import open\nopen('x')",
        "import random\nrandom.Random(7).random()",
        "def f(random):\n    return random.random()",
        "import time\ntime.strftime('%Y')",
        "import os\nos.fspath('x')",
        "import os\nos.path.join('a', 'b')",
        "from datetime import UTC, datetime\ndatetime.fromtimestamp(0, UTC)",
        "assert True",
        "'print(1) and open(2)'",
    ],
)
def test_a_look_alike_is_left_alone(source: str) -> None:
    assert names(source) == []


@pytest.mark.parametrize("rule", [*RULES, PATH_METHODS], ids=lambda rule: rule.names[0])
def test_an_exception_is_allowed_and_nothing_else(rule: object) -> None:
    assert rule in (*RULES, PATH_METHODS)
    chosen = next(r for r in (*RULES, PATH_METHODS) if r is rule)
    name = chosen.names[0].replace("*", "error")
    if chosen is PATH_METHODS:
        source = f"from pathlib import Path\nPath('x').{name}()"
    else:
        module = name.rpartition(".")[0]
        source = f"import {module}\n{name}" if module else name
    assert names(source, ENGINE)
    for place in chosen.allowed:
        assert names(source, place) == []
        assert names(source, f"aof/{place}")


def test_every_exception_has_a_reason_and_an_alternative() -> None:
    for rule in (*RULES, PATH_METHODS):
        assert rule.instead
        assert all(rule.allowed.values())


def test_a_violation_says_file_line_name_and_alternative() -> None:
    (violation,) = violations("\n\nprint(1)", place=ENGINE)
    assert str(violation).startswith("aof/segment.py:3: print is not for here, use ")


def test_a_long_function_is_measured() -> None:
    source = "def short():\n    pass\n\ndef long():\n" + "    pass\n" * 10
    assert list(long_functions(source, lines_max=10)) == [("long", 11)]
