"""The S3 endpoint, beside other S3 servers: `bench.s3_servers` says what each of them promises.

Small requests come from `wrk`, signed ahead of time, each for an object of its own; large ones
from one connection. All bodies are sent without a signature of their own, as SDKs do over TLS.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from bench.aof_stores import SCRATCH, scratch_folder
from bench.http_load import ManyRequests
from bench.objects import HASH_LIMIT, hash_run, random_key
from bench.objects import Work as ObjectWork
from bench.objects_stores import fill_metadata
from bench.row import Contestant, Row, Run
from bench.s3_servers import BUCKET, KINDS, S3Server, start
from lakebed.base.units import KIB, MIB

_PAGE_END = re.compile(rb"<NextContinuationToken>([^<]+)</NextContinuationToken>")


@dataclass(frozen=True, kw_only=True)
class Work:
    """How much a contestant does in one run, and where."""

    scratch: Path = SCRATCH
    clients: tuple[int, ...] = (1, 16, 64)
    duration_s: int = 2
    requests: int = 10_000  # signed ahead; then they come again
    get_objects: int = 1_000
    large_bytes: int = 16 * MIB
    large_count: int = 4
    listed: int = 100_000


FULL = Work()


def rows(work: Work = FULL) -> Iterator[Row]:
    for clients in work.clients:
        yield small_row("PUT", clients, work)
    for clients in work.clients:
        yield small_row("GET", clients, work)
    yield large_row("PUT", work)
    yield large_row("GET", work)
    yield list_row(work)


def small_row(method: str, clients: int, work: Work) -> Row:
    promise = "durable with lakebed alone" if method == "PUT" else f"of {work.get_objects:,}"
    return Row(
        name=f"s3/{method} 1 KiB/{clients} clients",
        unit="requests",
        baseline="s3rver",
        note=f"{promise}; one thread of wrk",
        contestants=[
            Contestant(name, partial(_small, name, method, clients, work)) for name in KINDS
        ],
    )


@contextmanager
def _small(name: str, method: str, clients: int, work: Work) -> Iterator[Run]:
    with _started(name, work) as (server, folder):
        source = random.Random(1)
        if method == "GET":
            paths = [f"/{BUCKET}/{random_key(source)}" for _ in range(work.get_objects)]
            for path in paths:
                server.ask("PUT", path, bytes(KIB))
        else:
            paths = [f"/{BUCKET}/{random_key(source)}" for _ in range(work.requests)]
        yield _Signed(server, method, paths, clients, folder, work)


class _Signed:
    """A run of small requests, which are signed before it, without a clock."""

    def __init__(
        self,
        server: S3Server,
        method: str,
        paths: Sequence[str],
        clients: int,
        folder: Path,
        work: Work,
    ) -> None:
        self._server = server
        self._method = method
        self._paths = paths
        self._duration_s = work.duration_s
        self._load = ManyRequests(
            server.host, clients=clients, duration_s=work.duration_s, folder=folder
        )
        self.rest()

    def __call__(self) -> float:
        """As many as there would have been without starting and reading."""
        start_s = time.perf_counter()
        count = self._load()
        return count * (time.perf_counter() - start_s) / self._duration_s

    def rest(self) -> None:
        signed = [(path, self._server.headers(self._method, path, {})) for path in self._paths]
        self._load.prepare(self._method, signed, body_bytes=KIB if self._method == "PUT" else 0)


def large_row(method: str, work: Work) -> Row:
    return Row(
        name=f"s3/{method} 16 MiB",
        unit="bytes",
        baseline=HASH_LIMIT,
        note=f"turns of {work.large_count} on one connection; the limit hashes them, in one thread",
        contestants=[
            *(Contestant(name, partial(_large, name, method, work)) for name in KINDS),
            Contestant(HASH_LIMIT, partial(hash_run, _object_work(work))),
        ],
    )


def _object_work(work: Work) -> ObjectWork:
    return ObjectWork(large_bytes=work.large_bytes, large_count=work.large_count)


@contextmanager
def _large(name: str, method: str, work: Work) -> Iterator[Run]:
    with _started(name, work) as (server, _):
        data = random.randbytes(work.large_bytes)
        source = random.Random(2)
        path = f"/{BUCKET}/large"
        if method == "GET":
            server.ask("PUT", path, data)

        def put() -> float:
            for _ in range(work.large_count):
                server.ask("PUT", f"/{BUCKET}/{random_key(source)}", data)
            return work.large_count * len(data)

        def get() -> float:
            return sum(len(server.ask("GET", path)) for _ in range(work.large_count))

        yield put if method == "PUT" else get


def list_row(work: Work) -> Row:
    return Row(
        name="s3/list of 100 k keys",
        unit="keys",
        baseline="rclone",
        note=(
            f"all {work.listed:,} keys, in pages of 1,000; lakebed's metadata and rclone's files "
            "are made before it starts, the others cannot be filled in a sensible time"
        ),
        contestants=[
            Contestant("lakebed", partial(_list, "lakebed", work)),
            Contestant("rclone", partial(_list, "rclone", work)),
        ],
    )


@contextmanager
def _list(name: str, work: Work) -> Iterator[Run]:
    with scratch_folder(work.scratch) as folder:
        keys = [f"{number:012d}" for number in range(work.listed)]
        if name == "lakebed":
            fill_metadata(folder / "root", iter(keys))
        else:
            (folder / "data" / BUCKET).mkdir(parents=True)
            for key in keys:
                (folder / "data" / BUCKET / key).touch()
        with closing(start(name, folder)) as server:

            def run() -> float:
                return _list_all(server)

            yield run


def _list_all(server: S3Server) -> int:
    count, token = 0, ""
    while True:
        query = {"list-type": "2", "max-keys": "1000"}
        if token:
            query["continuation-token"] = token
        page = server.ask("GET", f"/{BUCKET}", query=query)
        count += page.count(b"<Key>")
        found = _PAGE_END.search(page)
        if found is None:
            return count
        token = found[1].decode()


@contextmanager
def _started(name: str, work: Work) -> Iterator[tuple[S3Server, Path]]:
    with scratch_folder(work.scratch) as folder, closing(start(name, folder)) as server:
        yield server, folder


def tiny(scratch: Path) -> Work:
    """For tests: little of everything."""
    return replace(
        FULL,
        scratch=scratch,
        clients=(2,),
        duration_s=1,
        requests=20,
        get_objects=5,
        large_bytes=MIB,
        large_count=2,
        listed=1_500,
    )
