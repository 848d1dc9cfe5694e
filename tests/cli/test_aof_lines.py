"""The small parts of `lakebed aof`: lines, moments, the progress bar."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.base.errors import InputError
from lakebed.base.simulation.clock import SimulatedClock
from lakebed.cli.input_lines import BadLine, line_batches
from lakebed.cli.progress import Progress
from lakebed.cli.values import moment_text, parse_moment_ns
from tests.cli.terminal import Terminal

S_NS = 1_000_000_000


def batches_of(data: bytes, *, chunk: int, record_bytes_max: int = 10) -> tuple[list[bytes], str]:
    """The records that were handed on, and what ended it."""
    stream = io.BytesIO(data)
    records: list[bytes] = []
    try:
        for batch in line_batches(
            lambda length: stream.read(min(length, chunk)), record_bytes_max=record_bytes_max
        ):
            assert batch
            records += batch
    except BadLine as error:
        return records, str(error)
    return records, ""


def expected(data: bytes, record_bytes_max: int = 10) -> tuple[list[bytes], int]:
    """The good lines from the start, and the number of the first bad one (0: none)."""
    lines = data.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    for index, line in enumerate(lines):
        if not 0 < len(line) <= record_bytes_max:
            return lines[:index], index + 1
    return lines, 0


@given(
    st.lists(st.binary(max_size=12).map(lambda line: line.replace(b"\n", b" ")), max_size=12),
    st.booleans(),
    st.integers(min_value=1, max_value=40),
)
def test_lines_are_the_same_however_they_arrive(
    lines: list[bytes], ends_in_newline: bool, chunk: int
) -> None:
    data = b"\n".join(lines) + (b"\n" if ends_in_newline else b"")
    records, error = batches_of(data, chunk=chunk)
    good, bad_line = expected(data)
    assert records == good
    assert error.startswith(f"line {bad_line} " if bad_line else "")
    assert bool(error) == bool(bad_line)


def test_a_line_without_an_end_is_refused_before_it_fills_the_memory() -> None:
    class Endless:
        count = 0

        def read(self, length: int) -> bytes:
            self.count += 1
            return b"x" * length

    endless = Endless()
    with pytest.raises(BadLine, match="line 1 is longer than"):
        list(line_batches(endless.read, record_bytes_max=5 << 20))
    assert endless.count == 6


@pytest.mark.parametrize(
    ("text", "moment_ns"),
    [
        ("0", 0),
        ("1700000000000000001", 1_700_000_000_000_000_001),
        ("1970-01-01T00:00:01", S_NS),
        ("1970-01-01T02:00:01+02:00", S_NS),
        ("1970-01-02", 86_400 * S_NS),
        ("1970-01-01T00:00:00.000001Z", 1000),
    ],
)
def test_a_moment_is_read(text: str, moment_ns: int) -> None:
    assert parse_moment_ns(text) == moment_ns


@pytest.mark.parametrize(
    "text", ["", "now", "-1", "1e9", "1969-12-31", "9999-12-31", "٣", "9" * 40]
)
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="not a time"):
        parse_moment_ns(text)


def test_a_moment_is_shown_in_utc() -> None:
    assert moment_text(1_700_000_000_123_456_789) == "2023-11-14T22:13:20.123Z"
    assert moment_text(-1) == "1969-12-31T23:59:59.999Z"


def test_a_bar_is_drawn_after_a_second_and_only_for_a_person(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = SimulatedClock()
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with Progress("verify", clock=clock) as progress:
        progress.update(1, 4)
        assert terminal.getvalue() == ""
        clock.advance(S_NS)
        progress.update(2, 4)
        assert terminal.shown().startswith("verify ━━━")
        assert terminal.shown().endswith("━ 2 of 4")
        progress.update(3, 4)  # too soon after the last
        assert "3 of 4" not in terminal.getvalue()
        clock.advance(S_NS)
        progress.count(12_345, "records")
        assert terminal.shown() == "verify 12,345 records"
    assert terminal.shown() == ""
    plain = io.StringIO()
    monkeypatch.setattr("sys.stderr", plain)
    with Progress("verify", clock=clock) as progress:
        clock.advance(2 * S_NS)
        progress.update(3, 4)
        progress.count(1, "records")
    assert plain.getvalue() == ""
