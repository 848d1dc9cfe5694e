"""What `lakebed s3` prints about buckets and objects: the same facts as lines, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lakebed.base.clock import NS_PER_MS
from lakebed.cli.moments import moment_text
from lakebed.cli.output import counted, table

if TYPE_CHECKING:  # the help needs no engine
    from lakebed.cli.s3_stores import Place
    from lakebed.seglake.listing import ListedVersion
    from lakebed.seglake.meta.rows import VersionRow
    from lakebed.seglake.model import BucketInfo, ObjectInfo, Versioning
    from lakebed.seglake.verification_report import Problem, Report

_SIZE_CHARACTERS = 13
_TIME_CHARACTERS = len("2025-01-31T12:00:00.000Z")
_ID_CHARACTERS = 32
_KIND_CHARACTERS = len("deleted")


# Buckets.


def bucket_lines(buckets: Sequence[BucketInfo]) -> list[str]:
    rows = [
        (bucket.name, versioning_text(bucket.versioning), _time(bucket.created_ms))
        for bucket in buckets
    ]
    return table(("bucket", "versioning", "created"), rows)


def bucket_document(bucket: BucketInfo) -> dict[str, object]:
    return {
        "bucket": bucket.name,
        "versioning": versioning_text(bucket.versioning),
        "created": _time(bucket.created_ms),
        "created_ms": bucket.created_ms,
    }


def versioning_text(versioning: Versioning) -> str:
    """As the command line takes it."""
    return "unversioned" if versioning.value == "disabled" else versioning.value


# Listings. They may be long, so lines are made one by one and columns have a fixed width.


def prefix_line(prefix: str, start: int) -> str:
    return f"{'PRE':>{_TIME_CHARACTERS + 2 + _SIZE_CHARACTERS}}  {prefix[start:]}"


def entry_line(entry: VersionRow | ListedVersion, start: int) -> str:
    """`start` is where the name that is shown begins in the key."""
    row, is_latest = _row_of(entry)
    is_marker = row.state.value == "DELETED"
    size = "-" if is_marker else str(row.size)
    columns = [_time(row.modified_ms), f"{size:>{_SIZE_CHARACTERS}}"]
    if is_latest is not None:
        kind = "deleted" if is_marker else "newest" if is_latest else "old"
        columns += [f"{_told_id(row):<{_ID_CHARACTERS}}", f"{kind:<{_KIND_CHARACTERS}}"]
    return "  ".join([*columns, row.key[start:]])


def entry_document(entry: VersionRow | ListedVersion) -> dict[str, object]:
    row, is_latest = _row_of(entry)
    found: dict[str, object] = {
        "key": row.key,
        "size": row.size,
        "etag": row.etag,
        "modified": _time(row.modified_ms),
        "modified_ms": row.modified_ms,
        "content_type": row.content_type,
        "state": row.state.value,
    }
    if is_latest is not None:
        found |= {"version_id": _told_id(row), "is_latest": is_latest}
    return found


def _row_of(entry: VersionRow | ListedVersion) -> tuple[VersionRow, bool | None]:
    """With whether it is the newest of its key, if versions are listed."""
    from lakebed.seglake.listing import ListedVersion

    return entry if isinstance(entry, ListedVersion) else (entry, None)


def _told_id(row: VersionRow) -> str:
    return "null" if row.is_null else row.version_id


# One object.


def info_lines(info: ObjectInfo) -> list[str]:
    content = info.content
    facts = [
        ("bucket", info.bucket),
        ("key", info.key),
        ("version", info.shown_version_id + ("" if info.is_latest else " (not the newest)")),
        ("state", info.state.value),
        ("size", str(info.size)),
        ("etag", info.etag),
        ("modified", _time(info.modified_ms)),
        ("content-type", content.content_type),
        ("cache-control", content.cache_control),
        ("content-disposition", content.content_disposition),
        ("content-encoding", content.content_encoding),
        ("content-language", content.content_language),
        ("expires", content.expires),
        ("parts", str(len(info.part_sizes)) if info.part_sizes else None),
        *((f"checksum {one.algorithm.value}", one.value) for one in info.checksums),
        *((f"metadata {name}", value) for name, value in sorted(content.metadata.items())),
    ]
    rows = [(name, value) for name, value in facts if value is not None]
    return table(("fact", "value"), rows)[1:]


def info_document(info: ObjectInfo) -> dict[str, object]:
    content = info.content
    return {
        "bucket": info.bucket,
        "key": info.key,
        "version_id": info.shown_version_id,
        "is_latest": info.is_latest,
        "state": info.state.value,
        "size": info.size,
        "etag": info.etag,
        "modified": _time(info.modified_ms),
        "modified_ms": info.modified_ms,
        "content_type": content.content_type,
        "cache_control": content.cache_control,
        "content_disposition": content.content_disposition,
        "content_encoding": content.content_encoding,
        "content_language": content.content_language,
        "expires": content.expires,
        "metadata": dict(content.metadata),
        "checksums": {one.algorithm.value: one.value for one in info.checksums},
        "part_sizes": list(info.part_sizes),
    }


# Verification.


def verify_lines(place: Place | None, report: Report) -> list[str]:
    lines = list(map(str, report.problems))
    if not lines:
        counts = [counted(report.versions, "version"), counted(report.chunks, "chunk")]
        counts += [counted(report.parts, "part")] if report.parts else []
        counts += [counted(report.segments, "segment")] if place is None else []
        counts += [counted(report.bytes, "byte")]
        where = "" if place is None else f"{place}: "
        lines.append(f"{where}{', '.join(counts)}, all whole")
    return [*lines, *(f"note: {note}" for note in report.notes)]


def verify_document(place: Place | None, report: Report) -> dict[str, object]:
    return {
        "bucket": None if place is None else place.bucket,
        "prefix": None if place is None else place.key,
        "ok": not report.problems,
        "versions": report.versions,
        "parts": report.parts,
        "chunks": report.chunks,
        "bytes": report.bytes,
        "segments": report.segments,
        "manifest_files": report.manifest_files,
        "problems": [_problem_document(problem) for problem in report.problems],
        "notes": list(report.notes),
    }


def _problem_document(problem: Problem) -> dict[str, object]:
    found: dict[str, object] = {
        "kind": problem.kind.value,
        "problem": problem.why,
        "bucket": problem.bucket,
        "key": problem.key,
        "version_id": problem.version_id,
        "upload_id": problem.upload_id,
        "part_number": problem.part_number,
        "path": problem.path,
    }
    return {name: value for name, value in found.items() if value is not None}


def _time(moment_ms: int) -> str:
    return moment_text(moment_ms * NS_PER_MS)
