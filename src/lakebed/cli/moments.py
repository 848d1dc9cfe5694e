"""Moments as people write them, and as tables show them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from lakebed.base.errors import InputError
from lakebed.base.units import VALUE_MAX, shown

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_moment_ns(text: str) -> int:
    """ns since 1970: from that number itself, or from ISO 8601 text (UTC unless it says more)."""
    if text.isascii() and text.isdigit() and len(text) <= 19:
        moment_ns = int(text)
    else:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            raise InputError(
                f"not a time: {shown(text)}; it looks like 2025-01-31T12:00:00Z, "
                "or is a number of ns since 1970"
            ) from None
        aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        try:
            moment_ns = (aware - _EPOCH) // timedelta(microseconds=1) * 1000
        except OverflowError:
            moment_ns = -1
    if not 0 <= moment_ns <= VALUE_MAX:
        raise InputError(f"not a time that can be stored: {shown(text)}")
    return moment_ns


def moment_text(moment_ns: int) -> str:
    """ISO 8601 in UTC, to the millisecond."""
    moment = _EPOCH + timedelta(microseconds=moment_ns // 1000)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
