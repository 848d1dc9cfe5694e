"""Objects over S3: put, overwritten, copied, uploaded in parts, read, listed and deleted.

Each worker has keys of its own and a ledger of what they hold: whatever it reads must be that. No
space of a deleted object is used again yet, so the bytes that are put have a limit, too.
"""

from __future__ import annotations

from hashlib import sha256
from random import Random
from typing import Any, Final

from lakebed.base.units import GIB, KIB, MIB
from tests.load.node import BUCKET, PART_BYTES_MIN, Node
from tests.load.traffic import Traffic

KEYS: Final = 200  # of one worker
SMALL_BYTES_MAX: Final = 64 * KIB
LARGE_BYTES: Final = 5 * MIB  # more than a chunk
PUT_BYTES_MAX: Final = GIB  # of one worker

# How often each is done, of a hundred.
SHARES: Final = {
    "put": 34,
    "get": 38,
    "get_part": 6,
    "delete": 10,
    "copy": 4,
    "list": 5,
    "upload": 3,
}
LARGE_EACH: Final = 400  # one put of so many


class S3Worker:
    """One thread. `ledger` is what was acknowledged: the hash of each key's body."""

    def __init__(self, node: Node, traffic: Traffic, number: int, *, seed: int) -> None:
        self._traffic = traffic
        self._prefix = f"worker-{number}/"
        self._random = Random(f"s3 {seed} {number}")
        self._s3 = node.s3()
        self._put_bytes = 0
        self.ledger: dict[str, str] = {}
        self.done = dict.fromkeys(SHARES, 0)

    def run(self) -> None:
        kinds, weights = list(SHARES), list(SHARES.values())
        while self._traffic.is_on:
            kind = self._random.choices(kinds, weights)[0]
            getattr(self, f"_{kind}")()
            self.done[kind] += 1
            self._traffic.did()

    def close(self) -> None:
        self._s3.close()

    def _put(self) -> None:
        is_large = self._random.randrange(LARGE_EACH) == 0 and self._put_bytes < PUT_BYTES_MAX
        size = LARGE_BYTES if is_large else self._random.randrange(SMALL_BYTES_MAX)
        key, body = self._key(), self._body(size)
        self._s3.put_object(Bucket=BUCKET, Key=key, Body=body)
        self.ledger[key] = sha256(body).hexdigest()

    def _upload(self) -> None:
        key = self._key()
        names = {"Bucket": BUCKET, "Key": key}
        upload = self._s3.create_multipart_upload(**names)["UploadId"]
        sizes = [PART_BYTES_MIN + self._random.randrange(SMALL_BYTES_MAX) for _ in range(3)]
        whole, parts = sha256(), []
        for number, size in enumerate(sizes, 1):
            body = self._body(size)
            whole.update(body)
            part = self._s3.upload_part(**names, UploadId=upload, PartNumber=number, Body=body)
            parts.append({"PartNumber": number, "ETag": part["ETag"]})
        if self._random.randrange(4) == 0:
            self._s3.abort_multipart_upload(**names, UploadId=upload)
            return
        self._s3.complete_multipart_upload(
            **names, UploadId=upload, MultipartUpload={"Parts": parts}
        )
        self.ledger[key] = whole.hexdigest()

    def _copy(self) -> None:
        source, key = self._known(), self._key()
        if source is None or source == key:
            return
        self._s3.copy_object(Bucket=BUCKET, Key=key, CopySource={"Bucket": BUCKET, "Key": source})
        self.ledger[key] = self.ledger[source]

    def _get(self) -> None:
        if (key := self._known()) is not None:
            assert hash_of(self._s3, key) == self.ledger[key], key

    def _get_part(self) -> None:
        """Of an object without bytes there is none."""
        key = self._known()
        if key is None or self.ledger[key] == sha256().hexdigest():
            return
        answer = self._s3.get_object(Bucket=BUCKET, Key=key, Range="bytes=0-99")
        size = int(answer["ContentRange"].rpartition("/")[2])
        assert len(answer["Body"].read()) == min(size, 100)

    def _delete(self) -> None:
        key = self._key()
        self._s3.delete_object(Bucket=BUCKET, Key=key)
        self.ledger.pop(key, None)

    def _list(self) -> None:
        assert listed(self._s3, self._prefix) == sorted(self.ledger)

    def _key(self) -> str:
        return f"{self._prefix}{self._random.randrange(KEYS):03}"

    def _known(self) -> str | None:
        return self._random.choice(sorted(self.ledger)) if self.ledger else None

    def _body(self, size: int) -> bytes:
        self._put_bytes += size
        return self._random.randbytes(size)


def hash_of(s3: Any, key: str) -> str:
    body = s3.get_object(Bucket=BUCKET, Key=key)["Body"]
    found = sha256()
    for piece in body.iter_chunks(MIB):
        found.update(piece)
    body.close()
    return found.hexdigest()


def listed(s3: Any, prefix: str = "") -> list[str]:
    """In pages."""
    pages = s3.get_paginator("list_objects_v2").paginate(
        Bucket=BUCKET, Prefix=prefix, PaginationConfig={"PageSize": 70}
    )
    return [one["Key"] for page in pages for one in page.get("Contents", ())]


def check_objects(s3: Any, *, acknowledged: dict[str, str], perhaps: dict[str, str]) -> int:
    """All that was acknowledged, and nothing else but `perhaps`: what a killed client had sent."""
    found = {key: hash_of(s3, key) for key in listed(s3)}
    assert found.items() >= acknowledged.items()
    assert found.items() <= (acknowledged | perhaps).items()
    return len(found)
