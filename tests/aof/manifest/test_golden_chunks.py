"""Chunks of version 1, written once and never again: a difference is a new version."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakebed.aof.manifest.chunk import Verdict, inspect_chunk
from lakebed.aof.manifest.format import FLAG_SEALED, FLAG_UPLOADED
from lakebed.aof.manifest.records import ManifestRecord, Unknown
from tests.aof.manifest.chunks import RECORDS, chunk_bytes

GOLDEN = Path(__file__).parents[2] / "golden" / "manifest" / "chunks_v1"
WITH_UNKNOWN = [*RECORDS, ManifestRecord(Unknown(99, b"from the future"), 1, 2, 1010, flags=5)]

CONTENTS = {
    "sealed.mlog": chunk_bytes(flags=FLAG_SEALED),
    "uploaded.mlog": chunk_bytes(WITH_UNKNOWN, flags=FLAG_SEALED | FLAG_UPLOADED),
    "open.mlog": chunk_bytes(),
    "uncommitted.mlog": chunk_bytes(committed=3),
}


@pytest.mark.parametrize("name", CONTENTS)
def test_what_is_written_now_is_what_was_written_then(name: str) -> None:
    assert (GOLDEN / name).read_bytes() == CONTENTS[name]


@pytest.mark.parametrize(
    ("name", "records", "is_sealed"),
    [
        ("sealed.mlog", RECORDS, True),
        ("uploaded.mlog", WITH_UNKNOWN, True),
        ("open.mlog", RECORDS, False),
        ("uncommitted.mlog", RECORDS[:3], False),
    ],
)
def test_what_was_written_then_is_read_now(
    name: str, records: list[ManifestRecord], is_sealed: bool
) -> None:
    judged = inspect_chunk(memoryview((GOLDEN / name).read_bytes()), 3)
    assert judged.verdict is Verdict.WHOLE
    assert [placed.record for placed in judged.records] == records
    assert judged.is_sealed == is_sealed
    assert judged.header is not None
    assert judged.header.base_record == 10
