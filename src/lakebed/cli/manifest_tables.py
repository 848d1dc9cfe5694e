"""What `lakebed manifest inspect` and `verify` print: the same facts as lines, and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from lakebed.aof.manifest.chunk import PlacedRecord
from lakebed.aof.manifest.format import MANIFEST_ITSELF
from lakebed.api.read_surface import ReadableManifestLog
from lakebed.cli.manifest_words import (
    payload_document,
    record_words,
    segment_text,
    time_document,
    time_text,
)
from lakebed.cli.output import counted, table
from lakebed.store.manifest_survey import ChunkFacts, Damaged, Entry, SnapshotFacts
from lakebed.store.manifest_verification import ManifestReport

DAMAGE_MARK = "!!"


@dataclass
class Inspected:
    """What one `inspect` found."""

    found: ReadableManifestLog
    chunks: list[ChunkFacts] = field(default_factory=list)
    snapshots: list[SnapshotFacts] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    shown: list[Entry] = field(default_factory=list)
    following: Entry | None = None  # the next that would be shown

    @property
    def is_damaged(self) -> bool:
        facts: list[ChunkFacts | SnapshotFacts] = [*self.chunks, *self.snapshots]
        return self.found.damage is not None or any(one.problem for one in facts)

    @property
    def unknown_count(self) -> int:
        return sum(chunk.unknown_count for chunk in self.chunks)

    @property
    def flagged_count(self) -> int:
        return sum(chunk.flagged_count for chunk in self.chunks)


def about(found: ReadableManifestLog) -> dict[str, object]:
    """How every document begins."""
    return {"log": found.log, "stream_id": found.stream, "manifest_log_enabled": found.is_enabled}


def about_line(found: ReadableManifestLog) -> str:
    state = {True: "", False: ", switched off", None: ""}[found.is_enabled]
    return f"{found.log}: stream {found.stream}{state}"


def inspect_lines(inspected: Inspected) -> list[str]:
    lines = [about_line(inspected.found)]
    if inspected.found.damage is not None:
        lines.append(f"{DAMAGE_MARK} {inspected.found.damage}")
    lines += ["", *_chunk_lines(inspected.chunks)]
    lines += ["", *_snapshot_lines(inspected.snapshots)] if inspected.snapshots else []
    lines += ["", *entry_lines(inspected.shown)]
    lines += [f"ignored: {name}" for name in inspected.ignored]
    for count, what in (
        (inspected.unknown_count, "of a type that is not known"),
        (inspected.flagged_count, "with flags"),
    ):
        lines += [f"{counted(count, 'record')} {what}"] if count else []
    if inspected.following is not None:
        lines.append(f"more: --from {inspected.following.position}")
    return lines


def inspect_document(inspected: Inspected) -> dict[str, object]:
    following = inspected.following
    return {
        **about(inspected.found),
        "problem": inspected.found.damage,
        "chunks": [_chunk_document(chunk) for chunk in inspected.chunks],
        "snapshots": [_snapshot_document(snapshot) for snapshot in inspected.snapshots],
        "records": [
            entry_document(one) for one in inspected.shown if isinstance(one, PlacedRecord)
        ],
        "damages": [entry_document(one) for one in inspected.shown if isinstance(one, Damaged)],
        "unknown_records": inspected.unknown_count,
        "flagged_records": inspected.flagged_count,
        "ignored_files": inspected.ignored,
        "next": None if following is None else str(following.position),
    }


def entry_lines(entries: Iterable[Entry]) -> list[str]:
    heading = ("position", "time", "type", "segment", "offset", "what")
    return table(heading, (_entry_row(entry) for entry in entries))


def entry_document(entry: Entry) -> dict[str, object]:
    place: dict[str, object] = {
        "position": str(entry.position),
        "chunk": entry.position.chunk_index,
        "offset": entry.position.offset,
    }
    if isinstance(entry, Damaged):
        return {**place, "state": entry.state, "problem": entry.problem, "path": entry.path}
    record = entry.record
    return {
        **place,
        **time_document("time", record.timestamp_ms),
        "type": record.type_name,
        "type_number": record.type_number,
        "flags": record.flags,
        "segment_id": None if record.segment_id == MANIFEST_ITSELF else record.segment_id,
        "logical_offset": record.logical_offset,
        "payload": payload_document(record.payload),
        "what": record_words(record),
    }


def verify_lines(found: ReadableManifestLog, report: ManifestReport) -> list[str]:
    lines = [str(problem) for problem in report.problems]
    lines += [f"note: {note}" for note in report.notes]
    if report.problems:
        return lines
    uploaded = report.uploaded_chunk_count
    counts = (
        counted(report.chunk_count, "chunk"),
        counted(report.record_count, "record"),
        counted(report.snapshot_count, "snapshot"),
        counted(report.segment_count, "segment"),
        *([counted(report.warm_file_count, "warm file")] if report.warm_file_count else []),
        *([counted(report.object_count, "object")] if report.object_count else []),
        *([counted(uploaded, "uploaded chunk")] if uploaded else []),
    )
    return [*lines, f"{found.log}: {', '.join(counts)}, all whole"]


def verify_document(found: ReadableManifestLog, report: ManifestReport) -> dict[str, object]:
    return {**about(found), **report_document(report)}


def report_document(report: ManifestReport) -> dict[str, object]:
    return {
        "ok": not report.problems,
        "chunks": report.chunk_count,
        "records": report.record_count,
        "snapshots": report.snapshot_count,
        "snapshots_compared": report.compared_snapshot_count,
        "segments_compared": report.segment_count,
        "warm_files": report.warm_file_count,
        "objects": report.object_count,
        "chunks_uploaded": report.uploaded_chunk_count,
        "problems": [
            {**problem._asdict(), "verdict": problem.verdict.value} for problem in report.problems
        ],
        "notes": report.notes,
    }


def _chunk_lines(chunks: Sequence[ChunkFacts]) -> list[str]:
    heading = ("chunk", "state", "uploaded", "records", "committed", "base record", "crc", "")
    crc = {True: "ok", False: "wrong", None: "-"}
    rows = [
        (
            str(chunk.chunk_index),
            chunk.state,
            "yes" if chunk.is_uploaded else "no",
            str(chunk.record_count),
            _number(chunk.committed_bytes),
            _number(chunk.base_record),
            crc[chunk.is_crc_right],
            f"{DAMAGE_MARK} {chunk.problem}" if chunk.problem else "",
        )
        for chunk in chunks
    ]
    return table(heading, rows)


def _chunk_document(chunk: ChunkFacts) -> dict[str, object]:
    return {
        "chunk": chunk.chunk_index,
        "state": chunk.state,
        "sealed": chunk.is_sealed,
        "uploaded": chunk.is_uploaded,
        "flags": chunk.flags,
        "records": chunk.record_count,
        "committed_bytes": chunk.committed_bytes,
        "file_bytes": chunk.file_bytes,
        "base_record": chunk.base_record,
        "crc_ok": chunk.is_crc_right,
        "problem": chunk.problem or None,
        "path": chunk.path,
    }


def _snapshot_lines(snapshots: Sequence[SnapshotFacts]) -> list[str]:
    heading = ("snapshot", "state", "position", "records", "segments", "deletes", "bytes",
               "last record", "")  # fmt: skip
    rows = []
    for facts in snapshots:
        cells: tuple[str, ...] = ("-", "-", "-", "-")
        last = "-"
        if facts.snapshot is not None:
            index = facts.snapshot.index
            counts = (index.record_count, len(index), len(index.pending_deletes))
            cells = (str(facts.snapshot.position), *map(str, counts))
            last = time_text(index.last_timestamp_ms)
        problem = f"{DAMAGE_MARK} {facts.problem}" if facts.problem else ""
        size = str(facts.file_bytes)
        rows.append((str(facts.snapshot_id), facts.state, *cells, size, last, problem))
    return table(heading, rows)


def _snapshot_document(facts: SnapshotFacts) -> dict[str, object]:
    document: dict[str, object] = {
        "snapshot": facts.snapshot_id,
        "state": facts.state,
        "file_bytes": facts.file_bytes,
        "problem": facts.problem or None,
        "path": facts.path,
    }
    if facts.snapshot is not None:
        index = facts.snapshot.index
        document["position"] = str(facts.snapshot.position)
        document["records"] = index.record_count
        document["segments"] = len(index)
        document["pending_deletes"] = len(index.pending_deletes)
        document |= time_document("last_record_at", index.last_timestamp_ms)
    return document


def _entry_row(entry: Entry) -> tuple[str, ...]:
    if isinstance(entry, Damaged):
        what = f"{DAMAGE_MARK} {entry.state}: {entry.problem}"
        return (str(entry.position), "-", DAMAGE_MARK, "-", "-", what)
    record = entry.record
    return (
        str(entry.position),
        time_text(record.timestamp_ms),
        record.type_name,
        segment_text(record.segment_id),
        str(record.logical_offset),
        record_words(record),
    )


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)
