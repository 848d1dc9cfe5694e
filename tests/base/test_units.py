"""Sizes and durations: exact, bounded, and clear about what they refuse."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.base.errors import InputError
from lakebed.base.units import (
    GIB,
    KIB,
    MIB,
    VALUE_MAX,
    format_bytes,
    format_duration_ns,
    parse_bytes,
    parse_duration_ns,
    shown,
)

VALUES = st.integers(min_value=0, max_value=VALUE_MAX)


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("0", 0),
        ("17", 17),
        ("17B", 17),
        ("4KiB", 4 * KIB),
        ("64MiB", 64 * MIB),
        ("64 mib", 64 * MIB),
        (" 1.5GiB ", 3 * GIB // 2),
        ("2kB", 2_000),
        ("1MB", 1_000_000),
        ("0.5KiB", 512),
        (str(VALUE_MAX), VALUE_MAX),
    ],
)
def test_a_size_is_read(text: str, size_bytes: int) -> None:
    assert parse_bytes(text) == size_bytes


@pytest.mark.parametrize(
    ("text", "duration_ns"),
    [
        ("0s", 0),
        ("7ns", 7),
        ("250us", 250_000),
        ("5ms", 5_000_000),
        ("1.5s", 1_500_000_000),
        ("2min", 120_000_000_000),
        ("1h", 3_600_000_000_000),
        ("1d", 86_400_000_000_000),
    ],
)
def test_a_duration_is_read(text: str, duration_ns: int) -> None:
    assert parse_duration_ns(text) == duration_ns


HOSTILE = [
    "",
    " ",
    "-1MiB",
    "+1MiB",
    "NaN",
    "inf",
    "1e9B",
    "0x10",
    "1_000",
    "1,5GiB",
    ".5GiB",
    "1.GiB",
    "1.1.1B",
    "MiB",
    "64 furlongs",
    "64MiBs",
    "٣MiB",  # an Arabic digit
    "²ms",
    "5\nms",
    "5ms\n",
    "5ms\x00",
    "1\t2B",
    "9" * 21,
    "9" * 100_000,
    "9" * 20 + "TiB",
    "99999999999d",
    "0.3B",
    "0.1ns",
    "\ud800",
    "µ" * 70,
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text)[:20])
def test_a_hostile_text_is_refused_in_one_short_line(text: str) -> None:
    for parse in (parse_bytes, parse_duration_ns):
        with pytest.raises(InputError) as refusal:
            parse(text)
        message = str(refusal.value)
        assert message.isprintable()
        assert message.isascii() or "…" in message
        assert len(message) < 300


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("5", "unit is missing"),
        ("5 weeks", "unknown unit 'weeks'"),
        ("0.5ns", "not a whole number of ns"),
        ("200000d", "the maximum is"),
    ],
)
def test_a_refusal_says_why(text: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        parse_duration_ns(text)


@given(VALUES)
def test_a_size_survives_the_round_trip(size_bytes: int) -> None:
    assert parse_bytes(format_bytes(size_bytes)) == size_bytes


@given(VALUES)
def test_a_duration_survives_the_round_trip(duration_ns: int) -> None:
    assert parse_duration_ns(format_duration_ns(duration_ns)) == duration_ns


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    for parse in (parse_bytes, parse_duration_ns):
        value, message = 0, ""
        try:
            value = parse(text)
        except InputError as refusal:
            message = str(refusal)
        assert 0 <= value <= VALUE_MAX
        assert message.isprintable()


@pytest.mark.parametrize(
    ("size_bytes", "text"), [(0, "0B"), (1, "1B"), (1000, "1000B"), (MIB, "1MiB"), (1536, "1536B")]
)
def test_a_size_is_written_in_the_largest_unit_that_divides_it(size_bytes: int, text: str) -> None:
    assert format_bytes(size_bytes) == text


@pytest.mark.parametrize("value", [-1, VALUE_MAX + 1, 1 << 300])
def test_a_number_out_of_range_is_not_written(value: int) -> None:
    with pytest.raises(InputError, match="out of range"):
        format_bytes(value)


def test_a_shown_value_is_one_short_line_of_ascii() -> None:
    for value in ("a\nb" * 1000, "\x1b[2J", "\ud800", 10**5000, [1] * 10_000, b"\xff" * 500, None):
        text = shown(value)
        assert len(text) < 400
        assert text.rstrip("…").isascii()
        assert text.isprintable()
