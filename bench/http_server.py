"""The HTTP server alone, beside uvicorn (httptools, uvloop) and granian (RSGI, uvloop).

One process each, with the same small application (`bench.http_apps`). A row counts requests in a
second of time; the one "by CPU" in a second of the server's own CPU time, which the load
generator beside it does not change.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from bench.aof_stores import SCRATCH, scratch_folder
from bench.http_apps import CPU_PATH
from bench.http_load import Load, OneClient
from bench.row import Contestant, Row, Run
from bench.servers import HOST, Server
from lakebed.base.units import KIB, MIB

APPS = Path(__file__).with_name("http_apps.py")
SERVERS = ("lakebed", "uvicorn", "granian")
BASELINE = "uvicorn"


@dataclass(frozen=True, kw_only=True)
class Work:
    """How much a contestant does in one run, and where."""

    scratch: Path = SCRATCH
    clients: int = 32
    duration_s: int = 1
    large_bytes: int = 16 * MIB
    large_count: int = 8


FULL = Work()


def rows(work: Work = FULL) -> Iterator[Row]:
    for name, put_bytes in (("GET 1 KiB", 0), ("PUT 1 KiB", KIB)):
        for by_cpu in (False, True):
            yield small_row(name, work, put_bytes=put_bytes, by_cpu=by_cpu)
    yield large_row("http/PUT 16 MiB", work)


def small_row(name: str, work: Work, *, put_bytes: int, by_cpu: bool) -> Row:
    a_second = "a second of the server's CPU time" if by_cpu else "a second"
    return Row(
        name=f"http/{name}{'/by CPU' if by_cpu else ''}",
        unit="requests",
        baseline=BASELINE,
        note=f"requests {a_second}, {work.clients} clients of one thread of wrk",
        contestants=[
            Contestant(server, partial(_small, server, put_bytes, by_cpu, work))
            for server in SERVERS
        ],
    )


@contextmanager
def _small(server_name: str, put_bytes: int, by_cpu: bool, work: Work) -> Iterator[Run]:
    with _running(server_name, work) as (server, folder):
        load = Load(
            f"http://{HOST}:{server.port}/",
            clients=work.clients,
            duration_s=work.duration_s,
            put_bytes=put_bytes,
            folder=folder,
        )

        def run() -> float:
            return load()

        def run_by_cpu() -> float:
            start_s, cpu_start_s = time.perf_counter(), _cpu_s(server)
            count = load()
            elapsed_s, cpu_s = time.perf_counter() - start_s, _cpu_s(server) - cpu_start_s
            return count * elapsed_s / cpu_s

        yield run_by_cpu if by_cpu else run


def large_row(name: str, work: Work) -> Row:
    return Row(
        name=name,
        unit="bytes",
        baseline=BASELINE,
        note=f"turns of {work.large_count} bodies, read to their end, on one connection",
        contestants=[Contestant(server, partial(_large, server, work)) for server in SERVERS],
    )


@contextmanager
def _large(server_name: str, work: Work) -> Iterator[Run]:
    body = bytes(work.large_bytes)
    with (
        _running(server_name, work) as (server, _),
        closing(OneClient(HOST, server.port)) as client,
    ):

        def run() -> float:
            for _ in range(work.large_count):
                client.ask("PUT", "/large", body)
            return work.large_count * len(body)

        yield run


@contextmanager
def _running(server_name: str, work: Work) -> Iterator[tuple[Server, Path]]:
    with scratch_folder(work.scratch) as folder:
        name = Path(sys.executable).name
        server = Server(name, lambda port: [str(APPS), server_name, str(port)], folder)
        with closing(server):
            yield server, folder


def _cpu_s(server: Server) -> float:
    with closing(OneClient(HOST, server.port)) as client:
        return float(client.ask("GET", CPU_PATH))


def tiny(scratch: Path) -> Work:
    """For tests: little of everything."""
    return replace(FULL, scratch=scratch, clients=2, large_bytes=MIB, large_count=2)
