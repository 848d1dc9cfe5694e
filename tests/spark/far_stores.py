"""A store behind a node, with something of everything, for queries that cannot see its files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from lakebed.aof.config import AofConfig
from lakebed.base.units import KIB
from lakebed.client.store import RemoteStore
from lakebed.host.store import Store
from lakebed.spark.backends import Backend
from tests.s3.endpoint import Endpoint
from tests.spark.feeds import SMALL, fill
from tests.spark.hidden import HiddenFolder

BUCKET = "lake"
MESSAGES = 600  # of each of two partitions
RECORDS = 500


class Far(NamedTuple):
    """What a query is told; `path` is where the store is, for who can see it."""

    endpoint: str
    s3_endpoint: str
    access_key: str
    secret_key: str
    path: str

    @property
    def backend(self) -> Backend:
        return Backend(
            endpoint=self.endpoint, access_key=self.access_key, secret_key=self.secret_key
        )

    @property
    def keys(self) -> dict[str, str]:
        return {"accessKey": self.access_key, "secretKey": self.secret_key}

    def options(self, **more: object) -> dict[str, str]:
        return self.keys | {"endpoint": self.endpoint} | _texts(more)

    def table_options(self, table: str, **more: object) -> dict[str, str]:
        return self.keys | {"s3Endpoint": self.s3_endpoint, "table": table} | _texts(more)

    def store(self) -> RemoteStore:
        return self.backend.connect()


def _texts(options: dict[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in options.items()}


def make_store(root: Path) -> None:
    """A topic, a log in all tiers, a bucket with objects."""
    config = AofConfig(segment_bytes=64 * KIB)
    with Store.open(root, config=config, topic_config=SMALL, serves=False) as store:
        for partition in store.topic("events", partitions=2).partitions:
            fill(partition, MESSAGES)
        log = store.log("audit")
        for number in range(RECORDS):
            log.append_record_with_timeout(record(number), 10, ext_id=number)
        log.flush()
        log.tiers.upload([0, 1])
        log.tiers.evict([0], warm=True)
        log.tiers.evict([1])
        assert [info.tier for info in log.segments()][:4] == [2, 1, 0, 0]
        bucket = store.bucket(BUCKET)
        for number in range(5):
            bucket.put(f"objects/{number}", b"x" * number)


def record(number: int) -> bytes:
    return b"%08d" % number + b"x" * 492


@contextmanager
def served(hidden: HiddenFolder, name: str) -> Iterator[Far]:
    """A store in the folder, by a node in a process of its own."""
    with Endpoint(hidden.path / name, log=hidden.path.parent / f"{name}.log") as node:
        yield Far(
            endpoint=node.http_url,
            s3_endpoint=node.url,
            access_key=node.access_key,
            secret_key=node.secret_key,
            path=str(hidden.path / name),
        )
