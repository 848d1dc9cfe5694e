"""A client that is killed: run by `faults`, in a process of its own.

    python -m tests.load.victim KIND NAME URL S3_URL

It goes on until somebody kills it. Before something is sent there is a line on standard output, and
another one when it was acknowledged; so whoever reads them knows what must be there, and what may.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from hashlib import sha256
from itertools import count
from random import Random

import lakebed
from tests.load.messages import TOPIC, value_of
from tests.s3.endpoint import ACCESS_KEY, SECRET_KEY

BATCH_COUNT = 20
LEASE_MS = 1_500  # what it held comes again soon
PART_BYTES = 300_000


def produce(name: str, url: str, _s3_url: str) -> Iterator[str]:
    """How many messages, in all."""
    with lakebed.connect(url, access_key=ACCESS_KEY, secret_key=SECRET_KEY) as store:
        topic = store.topic(TOPIC)
        for start in count(0, BATCH_COUNT):
            yield f"sent {start + BATCH_COUNT}"
            values = [value_of(name, start + index) for index in range(BATCH_COUNT)]
            topic.append_batch(values).result()
            yield f"acknowledged {start + BATCH_COUNT}"


def consume(_name: str, url: str, _s3_url: str) -> Iterator[str]:
    """It settles nothing: others must do it."""
    from tests.load.topic_traffic import GROUP

    with lakebed.connect(url, access_key=ACCESS_KEY, secret_key=SECRET_KEY) as store:
        group = store.topic(TOPIC).group(GROUP)
        while True:
            leased = group.lease(max_messages=50, lease_ms=LEASE_MS, wait_s=1.0)
            yield f"acknowledged {len(leased)}"


def put(name: str, _url: str, s3_url: str) -> Iterator[str]:
    """Key and hash. Uploads that are never completed are left behind besides."""
    from tests.load.node import BUCKET, s3_client

    s3, random = s3_client(s3_url), Random(name)
    for number in count():
        key, body = f"{name}/{number}", random.randbytes(random.randrange(100_000))
        told = f"{key} {sha256(body).hexdigest()}"
        yield f"sent {told}"
        s3.put_object(Bucket=BUCKET, Key=key, Body=body)
        yield f"acknowledged {told}"
        names = {"Bucket": BUCKET, "Key": f"{name}/unfinished"}
        upload = s3.create_multipart_upload(**names)["UploadId"]
        s3.upload_part(**names, UploadId=upload, PartNumber=1, Body=bytes(PART_BYTES))


KINDS = {"produce": produce, "consume": consume, "put": put}


def main(kind: str, name: str, url: str, s3_url: str) -> None:
    for line in KINDS[kind](name, url, s3_url):
        print(line, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
