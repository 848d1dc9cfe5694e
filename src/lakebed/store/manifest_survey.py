"""Reads the files of a manifest log: its chunks and snapshots, and the records in order.

Nothing is changed, and damage does not stop the survey: each damaged place is returned in order,
among the good records. Chunks are read one at a time. A chunk that was removed since it was listed
is skipped.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import NamedTuple

from lakebed.aof.manifest.chunk import InspectedChunk, PlacedRecord, Plausible, Verdict, salvage
from lakebed.aof.manifest.format import (
    FLAG_BUNDLE,
    FLAG_SEALED,
    FLAG_UPLOADED,
    RECORD_HEADER,
    RECORDS_START,
    record_bytes,
)
from lakebed.aof.manifest.reader import ManifestReader
from lakebed.aof.manifest.records import Position, Unknown
from lakebed.aof.manifest.snapshot import Snapshot
from lakebed.base.errors import DataError, NotFound, Torn, UnknownVersion
from lakebed.base.files import TEMPORARY_SUFFIX
from lakebed.kernels import crc64nvme

KNOWN_FLAGS = FLAG_SEALED | FLAG_UPLOADED | FLAG_BUNDLE
_BUNDLES = "bundles"
_NO_RECORD = "these bytes are not a record"


class ChunkFacts(NamedTuple):
    """The state and the counts of one chunk, or of several consecutive missing chunks."""

    chunk_index: int
    path: str
    state: str  # sealed, open, torn, corrupt, newer (written by a newer version), missing
    flags: int
    record_count: int  # good records, including those after damage
    unknown_count: int  # how many of them are of unknown types
    flagged_count: int  # how many of them have flags
    committed_bytes: int | None  # None if there is no readable header
    base_record: int | None  # None if there is no readable header
    file_bytes: int
    is_crc_right: bool | None  # None if the checksum cannot be verified
    problem: str  # empty if the chunk is whole

    @property
    def is_sealed(self) -> bool:
        return bool(self.flags & FLAG_SEALED)

    @property
    def is_uploaded(self) -> bool:
        return bool(self.flags & FLAG_UPLOADED)


class SnapshotFacts(NamedTuple):
    """The state and the content of one snapshot."""

    snapshot_id: int
    path: str
    state: str  # whole, torn, corrupt, newer
    file_bytes: int
    snapshot: Snapshot | None  # None if it is not whole
    problem: str  # empty if the snapshot is whole


class Damaged(NamedTuple):
    """A place in a chunk where records are damaged or missing."""

    position: Position  # offset 0 means the chunk as a whole
    state: str  # torn, corrupt, newer, missing
    path: str
    problem: str


class SurveyedChunk(NamedTuple):
    """A chunk and its content; `judged` is None if the chunk is missing or unreadable."""

    facts: ChunkFacts
    judged: InspectedChunk | None


Entry = PlacedRecord | Damaged
Plausibility = Callable[[], Plausible]


def survey_chunks(
    reader: ManifestReader, *, first: int = 0, plausibility: Plausibility | None = None
) -> Iterator[SurveyedChunk]:
    """Yields the chunks from number `first` on, oldest first, and an item for each gap between."""
    expected: int | None = None
    indexes = reader.chunk_indexes()
    for index in indexes:
        if expected is not None and index > expected and index > first:
            yield SurveyedChunk(_missing(reader, max(expected, first), index), None)
        expected = index + 1
        if index >= first:
            is_last = index == indexes[-1]
            surveyed = survey_chunk(reader, index, is_last=is_last, plausibility=plausibility)
            if surveyed is not None:
                yield surveyed


def survey_chunk(
    reader: ManifestReader, index: int, *, is_last: bool, plausibility: Plausibility | None = None
) -> SurveyedChunk | None:
    """Reads one chunk; returns None if its file does not exist."""
    path = reader.paths.chunk(index)
    try:
        judged = reader.chunk(index, is_last=is_last, plausibility=plausibility)
    except NotFound:
        return None
    except DataError as error:
        state = "newer" if isinstance(error, UnknownVersion) else "corrupt"
        size = _file_bytes(reader, path)
        facts = ChunkFacts(
            index, path, state, 0, 0, 0, 0, None, None, size, None, _error_text(error)
        )
        return SurveyedChunk(facts, None)
    return SurveyedChunk(_facts(judged, path), judged)


def survey_snapshots(reader: ManifestReader) -> Iterator[SnapshotFacts]:
    """Reads and yields all snapshots, even if they are damaged, oldest first."""
    for snapshot_id in reader.snapshot_ids():
        path = reader.paths.snapshot(snapshot_id)
        try:
            snapshot = reader.snapshot(snapshot_id)
            state, problem = "whole", ""
        except NotFound:
            continue
        except DataError as error:
            snapshot = None
            state = "torn" if isinstance(error, Torn) else "corrupt"
            state = "newer" if isinstance(error, UnknownVersion) else state
            problem = _error_text(error)
        size = _file_bytes(reader, path)
        yield SnapshotFacts(snapshot_id, path, state, size, snapshot, problem)


def entries(
    reader: ManifestReader, *, start: Position | None = None, chunk_index: int | None = None
) -> Iterator[Entry]:
    """Yields the good records and the damaged places of a manifest log, in order.

    Begins at the position `start`, and ends after the chunk `chunk_index`. If only `chunk_index` is
    given, reads only that chunk; by default, reads all chunks.
    """
    first = start.chunk_index if start is not None else chunk_index or 0
    for surveyed in survey_chunks(reader, first=first):
        if chunk_index is not None and surveyed.facts.chunk_index > chunk_index:
            return
        for entry in entries_of(surveyed):
            # Damage of a chunk as a whole (offset 0) also concerns its part after `start`.
            if start is None or entry.position >= start or not entry.position.offset:
                yield entry


def entries_of(surveyed: SurveyedChunk) -> Iterator[Entry]:
    """Yields the good records and the damaged places of one chunk."""
    facts, judged = surveyed
    if judged is None:
        yield Damaged(Position(facts.chunk_index, 0), facts.state, facts.path, facts.problem)
    elif judged.verdict is Verdict.WHOLE:
        yield from judged.records
    else:
        yield from _around_damage(judged, facts)


def ignored_names(reader: ManifestReader) -> list[str]:
    """Returns the names of the files in the folder that are not part of the manifest log.

    Temporary files, and the subfolder `bundles`, are left out.
    """
    if not reader.disk.is_folder(reader.paths.folder):
        return []
    own_names = {os.path.basename(reader.paths.chunk(index)) for index in reader.chunk_indexes()}
    own_names |= {os.path.basename(reader.paths.snapshot(id_)) for id_ in reader.snapshot_ids()}
    names = reader.disk.names(reader.paths.folder)
    return [
        name
        for name in names
        if name not in own_names and name != _BUNDLES and not name.endswith(TEMPORARY_SUFFIX)
    ]


def _missing(reader: ManifestReader, first: int, end: int) -> ChunkFacts:
    problem = (
        "the chunk is missing"
        if end == first + 1
        else f"the chunks from this one to number {end - 1} are missing"
    )
    path = reader.paths.chunk(first)
    return ChunkFacts(first, path, "missing", 0, 0, 0, 0, None, None, 0, None, problem)


def _facts(judged: InspectedChunk, path: str) -> ChunkFacts:
    is_whole = judged.verdict is Verdict.WHOLE
    records = judged.records if is_whole else salvage(judged.data, judged.chunk_index)
    state = "sealed" if judged.is_sealed else "open"
    header = judged.header
    return ChunkFacts(
        chunk_index=judged.chunk_index,
        path=path,
        state=state if is_whole else judged.verdict.value,
        flags=0 if header is None else header.flags,
        record_count=len(records),
        unknown_count=sum(isinstance(placed.record.payload, Unknown) for placed in records),
        flagged_count=sum(placed.record.flags != 0 for placed in records),
        committed_bytes=None if header is None else header.committed_len,
        base_record=None if header is None else header.base_record,
        file_bytes=len(judged.data),
        is_crc_right=_is_crc_right(judged),
        problem=judged.problem,
    )


def _is_crc_right(judged: InspectedChunk) -> bool | None:
    header = judged.header
    if judged.verdict is Verdict.WHOLE or header is None or header.committed_len > len(judged.data):
        return True if judged.verdict is Verdict.WHOLE else None
    return crc64nvme(judged.data[RECORDS_START : header.committed_len]) == header.chunk_crc64


def _around_damage(judged: InspectedChunk, facts: ChunkFacts) -> Iterator[Entry]:
    """Yields the good records of a damaged chunk, and a `Damaged` for each place between them."""
    index, committed = judged.chunk_index, facts.committed_bytes
    is_unlocated = committed is not None and committed <= judged.end
    place = Position(index, 0 if is_unlocated else judged.end)
    damage = Damaged(place, facts.state, facts.path, judged.problem)
    if is_unlocated:
        yield damage
    is_reported, end = is_unlocated, RECORDS_START
    for placed in salvage(judged.data, index):
        offset = placed.position.offset
        if not is_reported and offset >= place.offset:
            yield damage
            is_reported = True
        elif offset > end:
            yield damage._replace(position=Position(index, end), problem=_NO_RECORD)
        yield placed
        header = RECORD_HEADER.unpack(judged.data, offset)
        end = offset + record_bytes(header.payload_len)
    if not is_reported:
        yield damage
    elif committed is not None and end < committed:
        yield damage._replace(position=Position(index, end), problem=_NO_RECORD)


def _error_text(error: DataError) -> str:
    """Returns the error's text without the file's path and the position in it."""
    facts = "" if error.expected is None else f", expected {error.expected}"
    facts += "" if error.found is None else f", found {error.found}"
    return f"{error.problem}{facts}"


def _file_bytes(reader: ManifestReader, path: str) -> int:
    try:
        with reader.disk.open(path) as file:
            return file.size()
    except NotFound:
        return 0
