"""The bucket of the logs, and buckets that are only overwritten with `If-Match`, over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lakebed.api import objects
from lakebed.api.operation import Operation
from lakebed.seglake.config import SeglakeConfig
from lakebed.seglake.errors import PreconditionFailed, ReservedBucket
from lakebed.seglake.model import Versioning
from lakebed.store.lake_object_store import BUCKET
from tests.http_api.live_api import LiveApi, open_api, target_of
from tests.store.lake_tiers import CONFIG, OBJECTS, SHARED, check_log, keys, write_cold

LARGE = bytes(300_000)


@pytest.fixture
def live_api(tmp_path: Path) -> Iterator[LiveApi]:
    with open_api(tmp_path, config=CONFIG, tier_config=SHARED, object_config=OBJECTS) as live_api:
        yield live_api


def test_the_bucket_of_the_logs_is_not_changed_over_http(live_api: LiveApi) -> None:
    written = write_cold(live_api.store)
    key, *_ = found = keys(live_api.store)
    bucket = {"bucket": BUCKET}
    at: dict[str, object] = {**bucket, "key": key}
    doomed = objects.DeleteMany(objects=[objects.ObjectDeletion(one) for one in found])
    changes: list[tuple[Operation[Any], dict[str, object], object]] = [
        (objects.PUT_OBJECT, at, b"small"),
        (objects.PUT_OBJECT, at, LARGE),
        (objects.COPY_OBJECT, at, objects.CopyObject("another")),
        (objects.DELETE_OBJECT, at, None),
        (objects.DELETE_OBJECTS, {**bucket}, doomed),
        (objects.SET_VERSIONING, {**bucket}, objects.SetVersioning(versioning=Versioning.ENABLED)),
        (objects.DELETE_BUCKET, {**bucket}, None),
    ]
    for operation, names, body in changes:
        with pytest.raises(ReservedBucket, match="is read-only"):
            live_api.call(operation, names, body=body)
    assert live_api.ask("DELETE", target_of(objects.DELETE_OBJECT, at)).status == 403
    assert live_api.call(objects.DESCRIBE_OBJECT, at).key == key
    assert keys(live_api.store) == found
    check_log(live_api.store, written)


def test_only_the_logs_create_their_bucket(live_api: LiveApi) -> None:
    for versioning in (Versioning.ENABLED, Versioning.DISABLED, None):
        with pytest.raises(ReservedBucket):
            live_api.call(
                objects.ENSURE_BUCKET, {"bucket": BUCKET}, body=objects.NewBucket(versioning)
            )
    write_cold(live_api.store)
    found = live_api.call(objects.ENSURE_BUCKET, {"bucket": BUCKET}, body=objects.NewBucket(None))
    assert found.versioning is Versioning.DISABLED, "it is there, and was not changed"


@pytest.mark.parametrize("data", [b"small", LARGE], ids=["small", "large"])
def test_a_bucket_that_needs_if_match_is_not_overwritten_without_it(
    tmp_path: Path, data: bytes
) -> None:
    config = SeglakeConfig(reserve_bytes=0, require_if_match_buckets="photos, *")
    with open_api(tmp_path, object_config=config) as live_api:
        live_api.store.bucket("photos")
        at: dict[str, object] = {"bucket": "photos", "key": "a"}
        first = live_api.call(objects.PUT_OBJECT, at, body=data)
        with pytest.raises(PreconditionFailed, match=first.etag):
            live_api.call(objects.PUT_OBJECT, at, body=data)
        live_api.call(objects.PUT_OBJECT, at, {"if_match": first.etag}, body=data)
