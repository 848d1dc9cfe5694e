"""Parses times, sizes and durations from arguments, and formats them for reports."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from lakebed.base.clock import NS_PER_MS
from lakebed.base.errors import InputError
from lakebed.base.units import KIB, VALUE_MAX, shown

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NS_DIGITS_MAX = 19
_MS_DIGITS_MAX = 15  # a longer number is probably in another unit


def parse_moment_ns(text: str) -> int:
    """Parses ISO 8601 text (UTC by default), or a number of ns since 1970. Returns ns since
    1970."""
    is_number = _is_number(text, _NS_DIGITS_MAX)
    moment_ns = int(text) if is_number else _parse_iso_ns(text, unit="ns")
    _check_storable(text, moment_ns)
    return moment_ns


def parse_moment_ms(text: str) -> int:
    """Parses ISO 8601 text (UTC by default), or a number of ms since 1970. Returns ms since 1970,
    rounded up."""
    is_number = _is_number(text, _MS_DIGITS_MAX)
    if not is_number and text.isascii() and text.isdigit():
        raise _no_moment(text, unit="ms")
    moment_ns = int(text) * NS_PER_MS if is_number else _parse_iso_ns(text, unit="ms")
    _check_storable(text, moment_ns)
    return -(-moment_ns // NS_PER_MS)


def _check_storable(text: str, moment_ns: int) -> None:
    if not 0 <= moment_ns <= VALUE_MAX:
        raise InputError(
            f"{shown(text)} is not a time that can be stored: it must be from 1970 to April 2262"
        )


def moment_text(moment_ns: int) -> str:
    """Formats a time as ISO 8601 in UTC, with milliseconds."""
    moment = _EPOCH + timedelta(microseconds=moment_ns // 1000)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def moment_ms_text(moment_ms: int) -> str:
    return moment_text(moment_ms * NS_PER_MS)


def size_text(size_bytes: int) -> str:
    """Formats a size: `96 B`, `1.5 KiB`, `64.0 MiB`."""
    if size_bytes < KIB:
        return f"{size_bytes} B"
    size, unit = size_bytes / KIB, "KiB"
    for larger in ("MiB", "GiB", "TiB"):
        if size < KIB:
            break
        size, unit = size / KIB, larger
    return f"{size:.1f} {unit}"


def duration_text(duration_ms: int) -> str:
    """Formats a duration: `12 ms`, `1.5 s`, `3 min 20 s`, `2 h 5 min`, `4 d 7 h`, or `-12 ms`."""
    sign, value = ("-", -duration_ms) if duration_ms < 0 else ("", duration_ms)
    if value < 1000:
        return f"{sign}{value} ms"
    if value < 60_000:
        return f"{sign}{value / 1000:.1f} s"
    for large, small, large_ms, small_ms in (
        ("min", "s", 60_000, 1000),
        ("h", "min", 3_600_000, 60_000),
    ):
        if value < 60 * large_ms:
            return f"{sign}{value // large_ms} {large} {value % large_ms // small_ms} {small}"
    return f"{sign}{value // 86_400_000} d {value % 86_400_000 // 3_600_000} h"


def tiers_text(tiers: Iterable[int]) -> str:
    """Formats the tiers of a segment: `0+2`, or `-` if it is in none."""
    return "+".join(map(str, tiers)) or "-"


def _is_number(text: str, digits_max: int) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= digits_max


def _parse_iso_ns(text: str, *, unit: str) -> int:
    """Parses ISO 8601 text (UTC by default). Returns ns since 1970, or -1 if that overflows in
    Python's arithmetic."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise _no_moment(text, unit=unit) from None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    try:
        return (aware - _EPOCH) // timedelta(microseconds=1) * 1000
    except OverflowError:
        return -1


def _no_moment(text: str, *, unit: str) -> InputError:
    return InputError(
        f"{shown(text)} is not a time: write it as 2025-01-31T12:00:00Z, "
        f"or as a number of {unit} since 1970"
    )
