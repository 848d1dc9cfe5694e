"""The rows of the local socket, with very little work: what they count is what they did.

A contestant that cannot run here is skipped. No test here looks at a time.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack, closing
from pathlib import Path

import pytest

from bench.http_api import EMBEDDED, SERVED, LakebedServer, rows, tiny
from bench.http_api_load import LoadProcess, Order
from bench.row import Resting, Run, Unavailable
from bench.servers import free_port

pytestmark = [pytest.mark.process, pytest.mark.thorough]

OURS = {EMBEDDED, SERVED}
CASES = [
    pytest.param(row.name, one.name, marks=[] if one.name in OURS else [pytest.mark.slow])
    for row in rows(tiny(Path()))
    for one in row.contestants
]

# What one run of each contestant must say it did: two clients do one batch each, or lease and ack
# all there is.
EXPECTED = {
    "http-api/produce 1 x 100 B/2 clients": 2,
    "http-api/produce 20 x 100 B/2 clients": 40,
    "http-api/lease and ack 1/2 clients": 8,
    "http-api/lease and ack 20/2 clients": 80,
}


@pytest.mark.parametrize(("row_name", "contestant_name"), CASES)
def test_a_run_does_the_work_that_it_counts(
    row_name: str, contestant_name: str, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        run = running(row_name, contestant_name, tmp_path, stack)
        for _ in range(2):
            assert run() == EXPECTED[row_name]
            if isinstance(run, Resting):
                run.rest()
    assert not list(tmp_path.iterdir()), "something was left behind"


def test_every_row_compares_the_socket_with_the_embedded_store() -> None:
    for row in rows():
        assert row.baseline == EMBEDDED
        assert SERVED in [contestant.name for contestant in row.contestants]


def test_what_clients_of_the_socket_produce_and_ack_is_in_the_store(tmp_path: Path) -> None:
    with ExitStack() as stack:
        server = stack.enter_context(closing(LakebedServer(tmp_path)))
        load = stack.enter_context(closing(LoadProcess("lakebed", server.address, client_count=3)))
        load.wait_until_ready()
        load.begin(Order(batch_records=10, message_bytes=100))
        assert load.end() == 30
        assert sum(map(len, server.fetches())) == 30
        server.create_group()
        load.begin(Order(batch_records=5, batch_count=2, group=server.group_name))
        assert load.end() == 30
        assert server.lease_and_ack(1, 100) == 0, "all were acked"


def test_clients_that_fail_are_told_of(capfd: pytest.CaptureFixture[str]) -> None:
    load = LoadProcess("nats", str(free_port()), client_count=1)
    with closing(load), pytest.raises(OSError, match="clients of a row failed"):
        load.wait_until_ready()
    assert "ConnectionRefusedError" in capfd.readouterr().err


def running(row_name: str, contestant_name: str, scratch: Path, stack: ExitStack) -> Run:
    (contestant,) = (
        contestant
        for row in rows(tiny(scratch))
        if row.name == row_name
        for contestant in row.contestants
        if contestant.name == contestant_name
    )
    try:
        made = contestant.setup()
        if isinstance(made, AbstractContextManager):
            made = stack.enter_context(made)
    except Unavailable as missing:
        pytest.skip(str(missing))
    return made
