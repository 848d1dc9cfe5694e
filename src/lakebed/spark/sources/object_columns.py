"""The views of the object store as Arrow batches, column by column."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from lakebed.seglake.listing import ListedVersion
from lakebed.seglake.manifest import Manifest
from lakebed.seglake.meta.rows import TO_BE_REMOVED, TO_BE_WRITTEN, WRITTEN, VersionRow
from lakebed.seglake.model import BucketInfo
from lakebed.seglake.stored_rows import StoredVersion
from lakebed.spark.arrow.columns import TIMESTAMP, Fields
from lakebed.spark.sources.cells import (
    TEXTS,
    batch_of,
    moments,
    small_numbers,
    text_maps,
    texts,
    unsigned,
)
from lakebed.spark.sources.object_rows import Stored, StoredPart

_STRING = ("string", pa.string())
_BIGINT = ("bigint", pa.int64())
_INT = ("int", pa.int32())
_BOOLEAN = ("boolean", pa.bool_())
_TIMESTAMP = ("timestamp", TIMESTAMP)
_CHECKSUM = pa.struct({"algorithm": pa.string(), "value": pa.string(), "is_composite": pa.bool_()})
_CHECKSUMS = pa.list_(pa.field("element", _CHECKSUM))
_SIZES = pa.list_(pa.field("element", pa.int64()))
_TEXT_MAP = ("map<string,string>", TEXTS)
_HEADERS = (
    "cache_control",
    "content_disposition",
    "content_encoding",
    "content_language",
    "expires",
)
_FILE_STATES = {TO_BE_WRITTEN: "to be written", WRITTEN: "written", TO_BE_REMOVED: "to be removed"}

_VERSION = {
    "bucket": _STRING,
    "key": _STRING,
    "version_id": _STRING,
    "is_null": _BOOLEAN,
    "state": _STRING,
    "etag": _STRING,
    "size": _BIGINT,
    "content_type": _STRING,
    "modified_at": _TIMESTAMP,
    "hlc": _STRING,
    "site_id": _STRING,
}

VIEWS: Mapping[str, Fields] = {
    "buckets": Fields({"bucket": _STRING, "created_at": _TIMESTAMP, "versioning": _STRING}),
    "objects": Fields(_VERSION),
    "versions": Fields({**_VERSION, "is_latest": _BOOLEAN}),
    "manifests": Fields(
        {
            **_VERSION,
            "is_latest": _BOOLEAN,
            **dict.fromkeys(_HEADERS, _STRING),
            "metadata": _TEXT_MAP,
            "tags": _TEXT_MAP,
            "checksums": (
                "array<struct<algorithm:string,value:string,is_composite:boolean>>",
                _CHECKSUMS,
            ),
            "part_sizes": ("array<bigint>", _SIZES),
            "chunk_count": _INT,
            "manifest_bytes": _BIGINT,
            "file_state": _STRING,
            "problem": _STRING,
        }
    ),
    "chunks": Fields(
        {
            "bucket": _STRING,
            "key": _STRING,
            "version_id": _STRING,
            "state": _STRING,
            "upload_id": _STRING,
            "part_number": _INT,
            "chunk_index": _INT,
            "object_offset": _BIGINT,
            "segment_id": _STRING,
            "offset": _BIGINT,
            "length": _INT,
            "hash": ("binary", pa.binary()),
            "problem": _STRING,
        }
    ),
}


class Owner(NamedTuple):
    """Whose chunks: a version's, or a part's of an upload."""

    bucket: str
    key: str
    version_id: str | None
    state: str | None
    upload_id: str | None
    part_number: int | None
    manifest: Manifest | None
    problem: str | None


_Make = Callable[[], pa.Array]


def bucket_batch(found: Sequence[BucketInfo], columns: Sequence[str]) -> pa.RecordBatch:
    return _made(
        {
            "bucket": lambda: texts([one.name for one in found]),
            "created_at": lambda: moments(unsigned(one.created_ms for one in found)),
            "versioning": lambda: texts([one.versioning.value for one in found]),
        },
        VIEWS["buckets"].schema(columns),
    )


def object_batch(rows: Sequence[VersionRow], columns: Sequence[str]) -> pa.RecordBatch:
    return _made(_of_versions(rows), VIEWS["objects"].schema(columns))


def version_batch(page: Sequence[ListedVersion], columns: Sequence[str]) -> pa.RecordBatch:
    return _made(_of_listed(page), VIEWS["versions"].schema(columns))


def manifest_batch(page: Sequence[Stored], columns: Sequence[str]) -> pa.RecordBatch:
    """What the manifest tells is null where it cannot be read."""
    manifests = [one.manifest for one in page]

    def of(take: Callable[[Manifest], Any]) -> list[Any]:
        return [None if one is None else take(one) for one in manifests]

    def header(name: str) -> _Make:
        return lambda: texts(of(lambda one: getattr(one.content, name)))

    return _made(
        {
            **_of_listed([one.version for one in page]),
            **{name: header(name) for name in _HEADERS},
            "metadata": lambda: text_maps(of(lambda one: one.content.metadata)),
            "tags": lambda: text_maps(of(lambda one: one.tags)),
            "checksums": lambda: pa.array(of(_checksums), _CHECKSUMS),
            "part_sizes": lambda: pa.array(of(lambda one: one.part_sizes), _SIZES),
            "chunk_count": lambda: small_numbers(of(lambda one: len(one.chunks))),
            "manifest_bytes": lambda: pa.array(list(map(_stored_bytes, page)), pa.int64()),
            "file_state": lambda: texts(list(map(_file_state, page))),
            "problem": lambda: texts([one.problem for one in page]),
        },
        VIEWS["manifests"].schema(columns),
    )


def owners_of_versions(page: Sequence[Stored]) -> Iterator[Owner]:
    for version, manifest, problem in page:
        row = version.row
        yield Owner(
            row.bucket, row.key, row.version_id, row.state.value, None, None, manifest, problem
        )


def owners_of_parts(page: Sequence[StoredPart]) -> Iterator[Owner]:
    for bucket, listed, manifest, problem in page:
        row = listed.row
        yield Owner(bucket, listed.key, None, None, row.upload_id, row.number, manifest, problem)


def chunk_batch(
    owners: Sequence[Owner], columns: Sequence[str], *, segments: frozenset[str] | None = None
) -> pa.RecordBatch:
    """The chunks of all of them, one a row, in their order; one that cannot be read has one row.

    `segments`: only what is in these.
    """
    counts = np.array([_row_count(one) for one in owners], np.int64)
    rows = np.repeat(np.arange(len(owners)), counts)
    chunks = [each for one in owners for each in _chunks(one)]
    is_chunk = np.fromiter((one is not None for one in chunks), bool, len(chunks))
    lengths = np.fromiter((0 if one is None else one.length for one in chunks), np.int64)
    starts = np.cumsum(counts) - counts

    def each(values: Sequence[Any], make: Callable[[Sequence[Any]], pa.Array]) -> _Make:
        return lambda: make(values).take(pa.array(rows))

    def number(found: Callable[[], np.ndarray], kind: pa.DataType) -> _Make:
        return lambda: pa.array(found(), mask=~is_chunk).cast(kind)

    def index() -> np.ndarray:
        return np.arange(len(rows)) - starts[rows]

    def object_offset() -> np.ndarray:
        before = np.cumsum(lengths) - lengths
        return before - before[starts[rows]] if len(rows) else before

    found = _made(
        {
            "bucket": each([one.bucket for one in owners], texts),
            "key": each([one.key for one in owners], texts),
            "version_id": each([one.version_id for one in owners], texts),
            "state": each([one.state for one in owners], texts),
            "upload_id": each([one.upload_id for one in owners], texts),
            "part_number": each([one.part_number for one in owners], small_numbers),
            "chunk_index": number(index, pa.int32()),
            "object_offset": number(object_offset, pa.int64()),
            "segment_id": lambda: texts([one and one.segment_id for one in chunks]),
            "offset": lambda: pa.array([one and one.offset for one in chunks], pa.int64()),
            "length": number(lambda: lengths, pa.int32()),
            "hash": lambda: pa.array([one and one.hash for one in chunks], pa.binary()),
            "problem": each([one.problem for one in owners], texts),
        },
        VIEWS["chunks"].schema(columns),
    )
    if segments is None:
        return found
    wanted = [one is not None and one.segment_id in segments for one in chunks]
    return found.filter(pa.array(wanted, pa.bool_()))


def _row_count(owner: Owner) -> int:
    return 1 if owner.manifest is None else len(owner.manifest.chunks)


def _chunks(owner: Owner) -> Sequence[Any]:
    return (None,) if owner.manifest is None else owner.manifest.chunks


_TEXTS = ("bucket", "key", "version_id", "etag", "content_type", "hlc", "site_id")


def _of_versions(rows: Sequence[VersionRow]) -> dict[str, _Make]:
    return {
        **{name: partial(_text_column, rows, name) for name in _TEXTS},
        "is_null": lambda: pa.array([row.is_null for row in rows], pa.bool_()),
        "state": lambda: texts([row.state.value for row in rows]),
        "size": lambda: pa.array([row.size for row in rows], pa.int64()),
        "modified_at": lambda: moments(unsigned([row.modified_ms for row in rows])),
    }


def _text_column(rows: Sequence[VersionRow], name: str) -> pa.Array:
    return texts([getattr(row, name) for row in rows])


def _of_listed(page: Sequence[ListedVersion | StoredVersion]) -> dict[str, _Make]:
    return {
        **_of_versions([one.row for one in page]),
        "is_latest": lambda: pa.array([one.is_latest for one in page], pa.bool_()),
    }


def _checksums(manifest: Manifest) -> list[dict[str, object]]:
    return [
        {"algorithm": one.algorithm.value, "value": one.value, "is_composite": one.is_composite}
        for one in manifest.checksums
    ]


def _stored_bytes(one: Stored) -> int | None:
    return None if one.version.manifest is None else len(one.version.manifest)


def _file_state(one: Stored) -> str | None:
    file_state = one.version.file_state
    return None if file_state is None else _FILE_STATES.get(file_state)


def _made(columns: Mapping[str, _Make], schema: pa.Schema) -> pa.RecordBatch:
    """Only what is asked for is made."""
    return batch_of({name: columns[name]() for name in schema.names}, schema)
