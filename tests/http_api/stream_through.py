"""Puts and gets a large object through an HTTP API; prints by how much this process grew meanwhile.

python -m tests.http_api.stream_through FOLDER
"""

from __future__ import annotations

import hashlib
import json
import resource
import sys
from collections.abc import Iterator
from pathlib import Path

from lakebed.api import objects
from lakebed.base.units import KIB, MIB
from tests.http_api.live_api import LiveApi, open_api, target_of

SIZE = 200 * MIB
TARGET = target_of(objects.PUT_OBJECT, {"bucket": "bucket", "key": "large"})
_BLOCK = bytes(range(256)) * 4096


def peak_bytes() -> int:
    """The most that was resident so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIB


def blocks() -> Iterator[bytes]:
    for _ in range(SIZE // len(_BLOCK)):
        yield _BLOCK


def put(live_api: LiveApi) -> None:
    answer = live_api.ask("PUT", TARGET, blocks())
    assert answer.json["size"] == SIZE


def get(live_api: LiveApi) -> None:
    connection = live_api.connect()
    connection.request("GET", TARGET)
    response = connection.getresponse()
    digest, expected = hashlib.sha256(), hashlib.sha256()
    while data := response.read(MIB):
        digest.update(data)
    for block in blocks():
        expected.update(block)
    assert digest.digest() == expected.digest()
    connection.close()


def main(folder: Path) -> None:
    growth = {}
    with open_api(folder) as live_api:
        live_api.store.bucket("bucket").put("small", b"1")
        live_api.ask("GET", "/v1/buckets/bucket/objects/small")
        for name, work in (("put", put), ("get", get)):
            before = peak_bytes()
            work(live_api)
            growth[name] = peak_bytes() - before
    print(json.dumps(growth))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
