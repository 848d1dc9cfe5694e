"""The bucket of the logs over S3: it is listed and read, and every change is refused."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from lakebed.s3.app import App
from lakebed.s3.router import VERBS
from lakebed.s3.service import Service
from lakebed.seglake.endpoint_config import EndpointConfig
from lakebed.seglake.key_ring import KeyRing
from lakebed.store.lake_object_store import BUCKET
from lakebed.store.store import Store
from tests.http.serving import in_loop, serving
from tests.s3.auth.signed_requests import CREDENTIALS, clock_at
from tests.s3.calls import request, routed
from tests.s3.wire import Wire, error_code, signed_request
from tests.store.lake_tiers import check_log, keys, open_store, write_cold

UPLOAD = (b"uploadId", b"00")
PART = [(b"partNumber", b"1"), UPLOAD]
SUSPEND = b"<VersioningConfiguration><Status>Suspended</Status></VersioningConfiguration>"
COMPLETE = (
    b"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>e</ETag></Part>"
    b"</CompleteMultipartUpload>"
)


def changes(key: str) -> list[tuple[str, bytes, dict[str, Any]]]:
    """Every change: method, path, and what else is sent."""
    bucket = f"/{BUCKET}".encode()
    at = bucket + b"/" + key.encode()
    source = {"x-amz-copy-source": f"/{BUCKET}/{key}"}
    delete = f"<Delete><Object><Key>{key}</Key></Object></Delete>".encode()
    md5 = base64.b64encode(hashlib.md5(delete, usedforsecurity=False).digest()).decode()
    deletes: dict[str, Any] = {
        "query": [(b"delete", b"")],
        "headers": {"content-md5": md5},
        "body": delete,
    }
    return [
        ("PUT", at, {"body": b"small"}),
        ("PUT", at, {"body": bytes(300_000)}),
        ("PUT", bucket + b"/new", {"headers": source}),
        ("DELETE", at, {}),
        ("DELETE", at, {"query": [(b"versionId", b"null")]}),
        ("POST", bucket, deletes),
        ("POST", at, {"query": [(b"uploads", b"")]}),
        ("PUT", at, {"query": PART, "body": b"part"}),
        ("PUT", at, {"query": PART, "headers": source}),
        ("POST", at, {"query": [UPLOAD], "body": COMPLETE}),
        ("DELETE", at, {"query": [UPLOAD]}),
        ("PUT", bucket, {"query": [(b"versioning", b"")], "body": SUSPEND}),
        ("DELETE", bucket, {}),
    ]


@asynccontextmanager
async def s3_of(store: Store) -> AsyncIterator[Wire]:
    with ThreadPoolExecutor(max_workers=4) as executor:
        service = Service(
            lake=store.lake, config=EndpointConfig(), clock=clock_at(), executor=executor
        )
        app = App(service, KeyRing(CREDENTIALS, store.lake.keys))
        async with serving(app, on_refusal=app.refusal) as served:
            yield Wire(served, service)


def test_the_bucket_of_the_logs_is_not_changed_over_s3(tmp_path: Path) -> None:
    @in_loop
    async def run() -> None:
        with open_store(tmp_path) as store:
            async with s3_of(store) as wire:
                refused = await wire.ask(signed_request("PUT", f"/{BUCKET}".encode()))
                assert error_code(refused) == "AccessDenied", "only the logs create it"
                written = write_cold(store)
                key, *_ = found = keys(store)
                for method, path, sent in changes(key):
                    refused = await wire.ask(signed_request(method, path, **sent))
                    assert (refused.status, error_code(refused)) == (403, "AccessDenied"), sent
                got = await wire.ask(signed_request("GET", f"/{BUCKET}/{key}".encode()))
                assert got.status == 200
            assert keys(store) == found
            check_log(store, written)

    run()


def test_every_verb_that_changes_something_is_tried_here() -> None:
    tried = {"CreateBucket"}
    for method, path, sent in changes("k"):
        names = "&".join(
            f"{name.decode()}={value.decode()}" for name, value in sent.get("query", ())
        )
        made = request(method, f"{path.decode()}?{names}", headers=sent.get("headers"))
        tried.add(type(routed(made)).__name__)
    assert tried == {verb.operation.__name__ for verb in VERBS if verb.writes}
