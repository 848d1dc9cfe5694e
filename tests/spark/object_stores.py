"""Stores whose object store has everything there is, and what the engine says of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lakebed.base.errors import DataError
from lakebed.host.store import Store
from lakebed.seglake.config import SeglakeConfig
from lakebed.seglake.listing import list_versions
from lakebed.seglake.manifest import Manifest, decode
from lakebed.seglake.model import Content, Versioning
from lakebed.store.read_only import ReadOnlyStore
from tests.aof.tiers.tiered_logs import write_segments
from tests.seglake.damaged_lakes import flip, segment_file
from tests.store.lake_tiers import CONFIG, SHARED

OBJECTS = SeglakeConfig(reserve_bytes=0, cache_bytes=0, part_bytes_min=1)
CHUNK = 4 * 1024 * 1024

HOSTILE_KEYS = (
    "\0",
    "a\0b",
    "a/../../etc/passwd",
    "line\nbreak\ttab",
    "quote'\"\\%_`",
    "\u202ereversed",
    "\U0001f600",
    "\ud7ff",
    "\ue000",
    "\U0010ffff",
    "e\u0301 and \u00e9",
    "k" * 1024,
)


@contextmanager
def writing(root: Path) -> Iterator[Store]:
    with Store.open(root, config=CONFIG, tier_config=SHARED, object_config=OBJECTS) as store:
        yield store


def write_everything(root: Path) -> None:
    """Buckets of all kinds; versions, markers, uploads, damage, odd names; a log's Tier 2."""
    with writing(root) as store:
        versioned = store.bucket("versioned", versioning=Versioning.ENABLED)
        for number in range(3):
            versioned.put("a/replaced", b"version %d" % number)
        # Past what a bucket refuses now: such metadata may have been stored before it did.
        store.lake.objects.put("versioned", "a/kept", b"kept", content=_content())
        versioned.put("a/deleted", b"deleted")
        versioned.delete("a/deleted")
        versioned.put("b/damaged", b"damaged " * 100)
        suspended = store.bucket("suspended", versioning=Versioning.ENABLED)
        suspended.put("both", b"with an id")
        suspended.set_versioning(Versioning.SUSPENDED)
        suspended.put("both", b"null")
        plain = store.bucket("plain", versioning=Versioning.DISABLED)
        plain.put("empty", b"")
        plain.put("two chunks", bytes(CHUNK) + b"end")
        plain.copy("two chunks", "copy")
        for key in HOSTILE_KEYS:
            plain.put(key, key.encode())
        store.bucket("nothing-in-it")
        upload = plain.upload("in parts")
        upload.put(1, b"first " * 10)
        upload.put(2, b"second")
        upload.complete()
        upload = plain.upload("begun")
        upload.put(4, b"four")
        upload.put(7, b"seven")
        plain.upload("without parts")
        log = store.log("orders")
        write_segments(log, 2)
        log.tiers.upload()
        log.tiers.evict(warm=True)
    _damage(root)


def _content() -> Content:
    return Content(
        content_type="text/plain",
        cache_control="no-store",
        content_disposition="attachment",
        content_encoding="identity",
        content_language="la",
        expires="Thu, 01 Jan 2026 00:00:00 GMT",
        metadata={"name": "value", "empty": "", "odd": "\ud800\u202e\0"},
    )


def _damage(root: Path) -> None:
    """A bit of an object, and let a reader find it: it is marked."""
    with ReadOnlyStore(root) as store, store.lake.metadata.snapshot() as reader:
        found = reader.current_manifest("versioned", "b/damaged")
        assert found is not None
        chunk = decode(found[1], path="").chunks[0]
    flip(segment_file(root, chunk.segment_id), chunk.offset + 3)
    with writing(root) as opened:
        try:
            opened.bucket("versioned").read("b/damaged")
        except DataError:
            return
        raise AssertionError("the damage was not found")


# What the engine says, as rows of the views.


def buckets_of(root: Path) -> list[dict[str, Any]]:
    with ReadOnlyStore(root) as store:
        return [
            {"bucket": one.name, "created_at": one.created_ms, "versioning": one.versioning.value}
            for one in store.buckets()
        ]


def objects_of(root: Path) -> list[dict[str, Any]]:
    with ReadOnlyStore(root) as store:
        return [_row(row) for bucket in store.buckets() for row in store.bucket(bucket.name).list()]


def versions_of(root: Path) -> list[dict[str, Any]]:
    """Also of buckets that a client of S3 is told none of."""
    with ReadOnlyStore(root) as store, store.lake.metadata.snapshot() as reader:
        pages = [list_versions(reader, bucket.name) for bucket in reader.buckets()]
    assert not any(page.is_truncated for page in pages)
    return [
        {**_row(row), "is_latest": is_latest} for page in pages for row, is_latest in page.items
    ]


def manifests_of(root: Path) -> dict[str, Manifest]:
    """By version id."""
    with ReadOnlyStore(root) as store, store.lake.metadata.snapshot() as reader:
        return {name: decode(data, path="") for name, data in reader.manifests()}


def _row(row: Any) -> dict[str, Any]:
    return {
        "bucket": row.bucket,
        "key": row.key,
        "version_id": row.version_id,
        "is_null": row.is_null,
        "state": row.state.value,
        "etag": row.etag,
        "size": row.size,
        "content_type": row.content_type,
        "modified_at": row.modified_ms,
        "hlc": row.hlc,
        "site_id": row.site_id,
    }
