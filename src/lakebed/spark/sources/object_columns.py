"""Converts rows of the object store's metadata to Arrow batches, for the views of
`lakebed.objects`.
"""

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
    """The owner of chunks: a version of an object, or a part of an unfinished upload."""

    bucket: str
    key: str
    version_id: str | None
    state: str | None
    upload_id: str | None
    part_number: int | None
    manifest: Manifest | None
    problem: str | None


_Make = Callable[[], pa.Array]


def bucket_batch(buckets: Sequence[BucketInfo], columns: Sequence[str]) -> pa.RecordBatch:
    return _made(
        {
            "bucket": lambda: texts([bucket.name for bucket in buckets]),
            "created_at": lambda: moments(unsigned(bucket.created_ms for bucket in buckets)),
            "versioning": lambda: texts([bucket.versioning.value for bucket in buckets]),
        },
        VIEWS["buckets"].schema(columns),
    )


def object_batch(rows: Sequence[VersionRow], columns: Sequence[str]) -> pa.RecordBatch:
    return _made(_of_versions(rows), VIEWS["objects"].schema(columns))


def version_batch(page: Sequence[ListedVersion], columns: Sequence[str]) -> pa.RecordBatch:
    return _made(_of_listed(page), VIEWS["versions"].schema(columns))


def manifest_batch(page: Sequence[Stored], columns: Sequence[str]) -> pa.RecordBatch:
    """Returns the view `manifests` of these versions.

    Columns that come from the manifest are null if it cannot be read.
    """
    manifests = [stored.manifest for stored in page]

    def of(take: Callable[[Manifest], Any]) -> list[Any]:
        return [None if manifest is None else take(manifest) for manifest in manifests]

    def header(name: str) -> _Make:
        return lambda: texts(of(lambda manifest: getattr(manifest.content, name)))

    return _made(
        {
            **_of_listed([stored.version for stored in page]),
            **{name: header(name) for name in _HEADERS},
            "metadata": lambda: text_maps(of(lambda manifest: manifest.content.metadata)),
            "tags": lambda: text_maps(of(lambda manifest: manifest.tags)),
            "checksums": lambda: pa.array(of(_checksums), _CHECKSUMS),
            "part_sizes": lambda: pa.array(of(lambda manifest: manifest.part_sizes), _SIZES),
            "chunk_count": lambda: small_numbers(of(lambda manifest: len(manifest.chunks))),
            "manifest_bytes": lambda: pa.array(list(map(_stored_bytes, page)), pa.int64()),
            "file_state": lambda: texts(list(map(_file_state, page))),
            "problem": lambda: texts([stored.problem for stored in page]),
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
    """Returns the view `chunks`: the chunks of all owners in order, one per row.

    An owner whose manifest cannot be read has one row, which states the problem. If `segments` is
    set, only chunks in these segments are returned.
    """
    counts = np.array([_row_count(owner) for owner in owners], np.int64)
    rows = np.repeat(np.arange(len(owners)), counts)
    chunks = [chunk for owner in owners for chunk in _chunks(owner)]
    is_chunk = np.fromiter((chunk is not None for chunk in chunks), bool, len(chunks))
    lengths = np.fromiter((0 if chunk is None else chunk.length for chunk in chunks), np.int64)
    starts = np.cumsum(counts) - counts

    def each(values: Sequence[Any], make: Callable[[Sequence[Any]], pa.Array]) -> _Make:
        return lambda: make(values).take(pa.array(rows))

    def number(values: Callable[[], np.ndarray], kind: pa.DataType) -> _Make:
        return lambda: pa.array(values(), mask=~is_chunk).cast(kind)

    def index() -> np.ndarray:
        return np.arange(len(rows)) - starts[rows]

    def object_offset() -> np.ndarray:
        before = np.cumsum(lengths) - lengths
        return before - before[starts[rows]] if len(rows) else before

    batch = _made(
        {
            "bucket": each([owner.bucket for owner in owners], texts),
            "key": each([owner.key for owner in owners], texts),
            "version_id": each([owner.version_id for owner in owners], texts),
            "state": each([owner.state for owner in owners], texts),
            "upload_id": each([owner.upload_id for owner in owners], texts),
            "part_number": each([owner.part_number for owner in owners], small_numbers),
            "chunk_index": number(index, pa.int32()),
            "object_offset": number(object_offset, pa.int64()),
            "segment_id": lambda: texts([chunk and chunk.segment_id for chunk in chunks]),
            "offset": lambda: pa.array([chunk and chunk.offset for chunk in chunks], pa.int64()),
            "length": number(lambda: lengths, pa.int32()),
            "hash": lambda: pa.array([chunk and chunk.hash for chunk in chunks], pa.binary()),
            "problem": each([owner.problem for owner in owners], texts),
        },
        VIEWS["chunks"].schema(columns),
    )
    if segments is None:
        return batch
    is_selected = [chunk is not None and chunk.segment_id in segments for chunk in chunks]
    return batch.filter(pa.array(is_selected, pa.bool_()))


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
        **_of_versions([version.row for version in page]),
        "is_latest": lambda: pa.array([version.is_latest for version in page], pa.bool_()),
    }


def _checksums(manifest: Manifest) -> list[dict[str, object]]:
    return [
        {
            "algorithm": checksum.algorithm.value,
            "value": checksum.value,
            "is_composite": checksum.is_composite,
        }
        for checksum in manifest.checksums
    ]


def _stored_bytes(stored: Stored) -> int | None:
    return None if stored.version.manifest is None else len(stored.version.manifest)


def _file_state(stored: Stored) -> str | None:
    file_state = stored.version.file_state
    return None if file_state is None else _FILE_STATES.get(file_state)


def _made(columns: Mapping[str, _Make], schema: pa.Schema) -> pa.RecordBatch:
    """Creates the columns that are in the schema, and returns them as a batch."""
    return batch_of({name: columns[name]() for name in schema.names}, schema)
