"""Ten programs beside one that embeds the store, which is killed, again and again.

They get a clear error, or do not notice; they go on when it is back. What was acknowledged, to
them or to the writer itself, is there once, and what was acked is never delivered again.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from lakebed.host.store import Store
from tests.behaviour.client_program import LEASE_MS, entries
from tests.tidy.repository import ROOT

pytestmark = pytest.mark.process

PRODUCERS, CONSUMERS = 6, 4
PATIENT_S, HASTY_S = 60.0, 0.05
BEATS_BETWEEN_KILLS = (20, 200)
GIVE_UP_S = 60


class Programs:
    """The writer and its clients, and a pipe on which they tell that something was acknowledged."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._heard, self._beats = os.pipe()

    def start(self, kind: str, ledger: str, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", f"tests.behaviour.{kind}_program"]
        command += [str(self._folder / "store"), str(self._folder / ledger), str(self._beats)]
        return subprocess.Popen(
            [*command, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            pass_fds=[self._beats],
        )

    def start_writer(self, life: int) -> subprocess.Popen[str]:
        writer = self.start("writer", f"writer-{life}.ledger")
        wait_until_ready(writer)
        return writer

    def start_clients(self) -> list[subprocess.Popen[str]]:
        clients = []
        for number in range(PRODUCERS + CONSUMERS):
            role = "producer" if number < PRODUCERS else "consumer"
            retry_s = str(PATIENT_S if number % 2 else HASTY_S)
            clients.append(self.start("client", f"{role}-{number}.ledger", retry_s, role))
        for client in clients:
            wait_until_ready(client)
        return clients

    def hear(self, count: int) -> None:
        """Until so many more things are acknowledged than are known by now."""
        while select.select([self._heard], [], [], 0)[0]:
            os.read(self._heard, 1 << 16)
        while count > 0:
            count -= len(os.read(self._heard, count))

    def close(self) -> None:
        os.close(self._heard)
        os.close(self._beats)


def wait_until_ready(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n", process.wait(GIVE_UP_S)


def end(process: subprocess.Popen[str]) -> int:
    """Told to, unless it has; its exit code."""
    with process:
        assert process.stdin is not None
        process.stdin.close()
        return process.wait(GIVE_UP_S)


def run(folder: Path, *, kills: int) -> None:
    seed = int(os.environ.get("LAKEBED_SEED", "8"))
    print(f"LAKEBED_SEED={seed} kills after as many acknowledgements")
    random, programs = Random(seed), Programs(folder)
    writer, clients = programs.start_writer(0), programs.start_clients()
    for life in range(1, kills + 1):
        programs.hear(random.randint(*BEATS_BETWEEN_KILLS))
        writer.kill()
        assert end(writer) == -signal.SIGKILL
        writer = programs.start_writer(life)
    programs.hear(max(BEATS_BETWEEN_KILLS))
    codes = [end(client) for client in clients]
    assert end(writer) == 0
    assert codes == [0] * len(clients)
    programs.close()


def look(folder: Path) -> dict[str, int]:
    """Compare the ledgers with the store; some numbers."""
    found = {
        path.name: list(entries(path)) for path in folder.iterdir() if path.suffix == ".ledger"
    }
    everything = [entry for theirs in found.values() for entry in theirs]
    acked = check_deliveries(everything)
    with Store.open(folder / "store", serves=False) as store:
        topic = store.topics.open("orders")
        stored = Counter(
            (message.value or b"").decode()
            for partition in topic.partitions
            for message in partition.read()
        )
        group = topic.group("g")
        left: set[tuple[int, int]] = set()
        while leased := group.lease(max_messages=10_000, wait_s=LEASE_MS / 1000):
            left |= {(one.partition, one.offset) for one in leased}
            group.ack_all(leased)
        assert not left & acked.keys(), "acked, and delivered again"
        assert len(left | acked.keys()) <= sum(stored.values())
        assert set(group.lag().values()) == {0}
    check_messages(everything, stored)
    check_clients(found)
    return {
        "stored": sum(stored.values()),
        "acked": len(acked),
        "unreachable": sum(what == "unreachable" for what, _, _ in everything),
    }


def check_messages(everything: list[tuple[str, int, Any]], stored: Counter[str]) -> None:
    sends, sent = set[str](), set[str]()
    for what, _, facts in everything:
        values = facts if isinstance(facts, list) else [facts]
        if what == "sends":
            sends.update(values)
        elif what == "sent":
            sent.update(values)
    assert stored.keys() >= sent, "acknowledged, and not there"
    assert stored.keys() <= sends, "there, and nobody sent it"
    assert [one for one, count in stored.items() if count > 1] == [], "there twice"


def check_deliveries(everything: list[tuple[str, int, Any]]) -> dict[tuple[int, int], int]:
    """When messages were acked first. Nobody who asks after that is given one of them."""
    acked: dict[tuple[int, int], int] = {}
    for what, at_ns, facts in everything:
        for partition, offset in facts if what == "acked" else ():
            place = (partition, offset)
            acked[place] = min(at_ns, acked.get(place, at_ns))
    asked_ns = 0
    for what, at_ns, facts in everything:  # a ledger after the other, each in its order
        if what == "leases":
            asked_ns = at_ns
        for partition, offset in facts if what == "leased" else ():
            assert asked_ns <= acked.get((partition, offset), asked_ns), "delivered again"
    return acked


def check_clients(found: dict[str, list[tuple[str, int, Any]]]) -> None:
    clients = {name: theirs for name, theirs in found.items() if "writer" not in name}
    for name, theirs in clients.items():
        whats = Counter(what for what, _, _ in theirs)
        assert whats["sent"] or whats["acked"], f"{name} never came to anything"
        for what, _, text in theirs:
            is_clear = "lakebed.sock" in str(text) or "the connection was closed" in str(text)
            assert what != "unreachable" or is_clear, text
    back_ns = max(theirs[0][1] for name, theirs in found.items() if name not in clients and theirs)
    for name, theirs in clients.items():
        last_ns = max(at_ns for what, at_ns, _ in theirs if what in ("sent", "acked"))
        assert last_ns > back_ns, f"{name} did not go on when the writer was back"


def test_ten_clients_of_a_writer_that_is_killed_lose_nothing(tmp_path: Path) -> None:
    run(tmp_path, kills=3)
    print(look(tmp_path))


@pytest.mark.slow
def test_ten_clients_of_a_writer_that_is_killed_twenty_times_lose_nothing(tmp_path: Path) -> None:
    run(tmp_path, kills=20)
    print(look(tmp_path))
