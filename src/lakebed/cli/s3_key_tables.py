"""What `lakebed s3 keys` prints: the same facts as lines, and as JSON. Never a secret."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lakebed.base.clock import NS_PER_MS
from lakebed.cli.moments import moment_text
from lakebed.cli.output import table

if TYPE_CHECKING:  # the help needs no engine
    from lakebed.seglake.model import KeyInfo

_HEADING = ("access key", "state", "created", "last used", "label")


def key_lines(keys: Sequence[KeyInfo]) -> list[str]:
    rows = [
        (
            key.access_key,
            state_text(key),
            _time(key.created_ms),
            "never" if key.last_used_ms is None else _time(key.last_used_ms),
            key.label,
        )
        for key in keys
    ]
    return table(_HEADING, rows)


def key_document(key: KeyInfo) -> dict[str, object]:
    return {
        "access_key": key.access_key,
        "label": key.label,
        "state": state_text(key),
        "inflight_max": key.inflight_max,
        "created": _time(key.created_ms),
        "created_ms": key.created_ms,
        "last_used": None if key.last_used_ms is None else _time(key.last_used_ms),
        "last_used_ms": key.last_used_ms,
    }


def state_text(key: KeyInfo) -> str:
    return "enabled" if key.is_enabled else "disabled"


def _time(moment_ms: int) -> str:
    return moment_text(moment_ms * NS_PER_MS)
