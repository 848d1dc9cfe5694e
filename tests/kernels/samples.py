"""What the kernel tests share: loading, strategies for calls, and comparing results."""

from __future__ import annotations

import os
import subprocess
import sys
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

import lakebed
from lakebed.base.errors import LakebedError
from lakebed.kernels import reference

Kernels = Any  # the compiled module or the reference: the same functions

ROOT = Path(__file__).parents[2]
SOURCE = Path(lakebed.__file__).parents[1]

U16_MAX = (1 << 16) - 1
U64_MAX = (1 << 64) - 1

quick = settings(
    settings(),
    max_examples=max(150, settings().max_examples),
    suppress_health_check=[*settings().suppress_health_check, HealthCheck.function_scoped_fixture],
)

u16 = st.integers(0, U16_MAX)
u64 = st.integers(0, U64_MAX)
payload_lists = st.lists(st.binary(min_size=1, max_size=300), max_size=12)


def load_compiled() -> Kernels:
    return pytest.importorskip("lakebed.kernels._compiled", exc_type=ImportError)


def run_python(
    *arguments: str, cwd: Path = ROOT, path: Path = SOURCE, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Another interpreter that finds the package in `path`."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(path), **environment},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )


def numbers(count: int, one: st.SearchStrategy[int], code: str) -> st.SearchStrategy[Any]:
    """One number, or one a record in each form that a caller may have it in."""
    many = st.lists(one, min_size=count, max_size=count)
    return st.one_of(
        one,
        many,
        many.map(tuple),
        many.map(lambda values: array(code, values)),
        many.map(lambda values: memoryview(array(code, values))),
    )


def bytes_like(data: bytes) -> st.SearchStrategy[Any]:
    """The same bytes as different objects."""
    return st.sampled_from([data, bytearray(data), memoryview(data), array("B", data)])


@st.composite
def aof_calls(draw: st.DrawFn) -> tuple[list[Any], dict[str, Any]]:
    payloads = [draw(bytes_like(payload)) for payload in draw(payload_lists)]
    return payloads, {
        "timestamps": draw(numbers(len(payloads), u64, "Q")),
        "ext_ids": draw(numbers(len(payloads), u64, "Q")),
        "capacity": draw(st.one_of(st.integers(0, 2000), st.just(1 << 70))),
        "crc64": draw(u64),
    }


@st.composite
def keratin_calls(draw: st.DrawFn) -> tuple[list[Any], list[Any] | None, dict[str, Any]]:
    payloads = draw(st.lists(st.binary(max_size=300).flatmap(bytes_like), max_size=12))
    count = len(payloads)
    block = st.one_of(st.none(), st.binary(max_size=40).flatmap(bytes_like))
    headers = draw(st.one_of(st.none(), st.lists(block, min_size=count, max_size=count)))
    return (
        payloads,
        headers,
        {
            "offsets": draw(numbers(count, st.integers(0, U64_MAX - 12), "Q")),
            "timestamps_ms": draw(numbers(count, u64, "Q")),
            "flags": draw(numbers(count, u16, "H")),
            "capacity": draw(st.one_of(st.integers(0, 2000), st.just(1 << 70))),
        },
    )


def outcome(function: Callable[..., Any], *args: object, **named: object) -> object:
    """What a call comes to, in a form that can be compared: columns as (code, values)."""
    try:
        result = function(*args, **named)
    except (LakebedError, TypeError) as error:
        return type(error), str(error)
    if hasattr(result, "positions") and not isinstance(result, tuple):
        return bytes(memoryview(result)), plain(result.positions)  # a batch
    if not isinstance(result, tuple):
        return result
    return type(result), [plain(part) for part in result]


def plain(part: object) -> object:
    if isinstance(part, memoryview):
        return part.format, part.readonly, part.tolist()
    return type(part), part


def assert_same(name: str, *args: object, **named: object) -> None:
    """Both implementations give the same, be it a result or a refusal."""
    compiled = getattr(load_compiled(), name)
    assert outcome(compiled, *args, **named) == outcome(getattr(reference, name), *args, **named)


def aof_data(payloads: list[bytes], **named: Any) -> bytes:
    """Records of the reference, with numbers that differ from one to the next."""
    count = len(payloads)
    given = {"timestamps": range(100, 100 + count), "ext_ids": range(count), **named}
    return reference.aof_encode(payloads, capacity=1 << 40, **given).data


def keratin_data(payloads: list[bytes], headers: Sequence[bytes | None] | None = None) -> bytes:
    stamps = range(1000, 1000 + len(payloads))
    return reference.keratin_encode(
        payloads, headers, offsets=7, timestamps_ms=stamps, flags=0, capacity=1 << 40
    ).data
