"""The bucket of the logs, for a program that embeds the store: read by all, changed by the logs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lakebed.seglake.config import SeglakeConfig
from lakebed.seglake.errors import PreconditionFailed, ReservedBucket
from lakebed.seglake.model import Versioning
from lakebed.store.lake_object_store import BUCKET
from lakebed.store.store import Store
from tests.store.lake_tiers import CONFIG, SHARED, check_log, keys, open_store, write_cold


def test_a_program_reads_the_bucket_of_the_logs_and_does_not_change_it(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        written = write_cold(store)
        key, *_ = found = keys(store)
        bucket, other = store.bucket(BUCKET), store.bucket("photos")
        other.put("a", b"bytes")
        uploads = store.lake.uploads
        changes: list[Callable[[], object]] = [
            lambda: bucket.put(key, b"small"),
            lambda: bucket.put(key, bytes(300_000)),
            lambda: bucket.delete(key),
            lambda: bucket.delete(key, version_id="null"),
            lambda: bucket.delete_many([key]),
            lambda: bucket.copy(key, "elsewhere"),
            lambda: other.copy("a", key, bucket=BUCKET),
            lambda: bucket.upload(key),
            lambda: uploads.put_part(BUCKET, key, "upload", 1, b"part"),
            lambda: uploads.copy_part("photos", "a", BUCKET, key, "upload", 1),
            lambda: uploads.complete(BUCKET, key, "upload", []),
            lambda: uploads.abort(BUCKET, key, "upload"),
            lambda: bucket.set_versioning(Versioning.ENABLED),
            lambda: store.delete_bucket(BUCKET),
        ]
        for change in changes:
            with pytest.raises(ReservedBucket, match="is read-only"):
                change()
        assert bucket.copy(key, "copied", bucket="photos").size == bucket.head(key).size
        assert keys(store) == found
        check_log(store, written)


def test_the_logs_keep_their_segments_in_a_store_that_asks_for_if_match(tmp_path: Path) -> None:
    config = SeglakeConfig(reserve_bytes=0, require_if_match_buckets="*")
    with Store.open(tmp_path, config=CONFIG, tier_config=SHARED, object_config=config) as store:
        written = write_cold(store)
        check_log(store, written)
        bucket = store.bucket("photos")
        bucket.put("a", b"first")
        with pytest.raises(PreconditionFailed):
            bucket.put("a", b"second")
        with pytest.raises(PreconditionFailed):
            bucket.copy("a", "a")
        bucket.copy("a", "a", if_match=bucket.head("a").etag)
        upload = bucket.upload("a")
        upload.put(1, b"second")
        with pytest.raises(PreconditionFailed):
            upload.complete()
        assert bucket.read("a") == b"first"
        upload.complete(if_match=bucket.head("a").etag)
        assert bucket.read("a") == b"second"
