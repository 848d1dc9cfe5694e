"""The names of a segment's copies: of its warm file, and of its object in Tier 2.

Both contain the sealing time. So if a segment is lost and another segment is written with the same
id, their copies have different names.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from lakebed.aof.manifest.paths import parse_stream_name, stream_name

WARM_SUFFIX = ".zst"
_WARM = re.compile(r"(\d{20})_(\d{20})_(\d{20})\.zst", re.ASCII)
_OBJECT = re.compile(r"([0-9a-f]{16})/segment-(\d{20})-(\d{1,20})\.zst", re.ASCII)
_U64_MAX = (1 << 64) - 1


class WarmName(NamedTuple):
    """The name of a warm file in `warm/`: `{segment_id}_{base_offset}_{sealed_at}.zst`.

    Each number has 20 digits.
    """

    segment_id: int
    base_offset: int
    sealed_at: int

    def __str__(self) -> str:
        return f"{self.segment_id:020}_{self.base_offset:020}_{self.sealed_at:020}{WARM_SUFFIX}"

    @classmethod
    def parse(cls, name: str) -> WarmName | None:
        match = _WARM.fullmatch(name)
        numbers = [int(part) for part in match.groups()] if match else []
        return cls(*numbers) if numbers and max(numbers) <= _U64_MAX else None


class SegmentKey(NamedTuple):
    """The key of a segment's object in Tier 2.

    Its form is `{prefix}/{stream_id}/segment-{segment_id}-{sealed_at}.zst`.
    """

    stream_id: int
    segment_id: int
    sealed_at: int

    def below(self, prefix: str) -> str:
        """Returns the object's key, which begins with that prefix."""
        stream = stream_name(self.stream_id)
        return f"{prefix}/{stream}/segment-{self.segment_id:020}-{self.sealed_at}{WARM_SUFFIX}"

    @classmethod
    def parse(cls, key: str, *, prefix: str) -> SegmentKey | None:
        match = _OBJECT.fullmatch(key.removeprefix(f"{prefix}/"))
        if match is None or not key.startswith(f"{prefix}/"):
            return None
        stream_id = parse_stream_name(match[1])
        assert stream_id is not None
        parsed = cls(stream_id, int(match[2]), int(match[3]))
        return parsed if parsed.below(prefix) == key and max(parsed) <= _U64_MAX else None


def segments_prefix(prefix: str, stream_id: int) -> str:
    """Returns the prefix of the keys of all segments of a log."""
    return f"{prefix}/{stream_name(stream_id)}/"


def manifest_prefix(prefix: str, stream_id: int) -> str:
    """Returns the prefix of the keys of a log's manifest chunks; a chunk's file name follows it."""
    return f"{prefix}/manifest/{stream_name(stream_id)}/"
