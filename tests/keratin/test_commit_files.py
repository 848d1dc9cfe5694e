"""`commit.bin` and `commits.json`: their bytes, and what is noticed of damage."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakebed.base.errors import Corrupt, NotFound, TooLarge, Torn, UnknownVersion
from lakebed.base.simulation.world import World
from lakebed.keratin import commit_file
from lakebed.keratin.commit_file import COMMIT_MESSAGES_MAX, NewCommit, load_commit
from lakebed.keratin.commit_ledger import (
    Committed,
    decode_ledger,
    encode_ledger,
    load_ledger,
    with_commit,
)
from lakebed.keratin.format import COMMIT_HEADER
from lakebed.keratin.headers import Producer
from lakebed.keratin.record_batch import build, check, producer_of
from tests.keratin.batch_samples import changed
from tests.keratin.partitions import content, flipped, replace

GOLDEN = Path(__file__).parents[1] / "golden" / "keratin" / "v1"
PAGE = Path(__file__).parents[2] / "docs" / "formats" / "keratin.md"
PATH = "/commit.bin"
LEDGER = {
    "query 7": Committed(41, 1200, 3, 1_700_000_000_123),
    "réservoir \U0001f980": Committed((1 << 63) - 1, None, 0, 0),
    "": Committed(0, 0, 1 << 30, 1 << 40),
}
BATCHES = [
    build([b"one", b"two"], timestamps_ms=1_700_000_000_123, producer=Producer(5, 1, 9)),
    build([b"three"], timestamps_ms=0, keys=[b"k"]),
]


def written(world: World, batches: list[bytes] | None = None) -> bytes:
    new = NewCommit(
        world.disk,
        PATH,
        application="réservoir",
        version=41,
        producer_id=(1 << 62) + 7,
        created_ms=1_700_000_000_123,
    )
    for batch in BATCHES if batches is None else batches:
        new.add(batch)
    new.finish()
    new.publish()
    return content(world.disk, PATH)


def test_a_commit_is_read_as_it_was_written() -> None:
    world = World(1)
    written(world)
    with load_commit(world.disk, PATH) as commit:
        assert (commit.application, commit.version) == ("réservoir", 41)
        assert (commit.header.batch_count, commit.header.message_count) == (2, 3)
        headers = [check(batch) for batch in commit.batches()]
        assert [producer_of(header) for header in headers] == [
            Producer((1 << 62) + 7, 0, 0),
            Producer((1 << 62) + 7, 0, 2),
        ]


def test_a_large_commit_is_written_and_verified_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(1)
    whole = written(world, BATCHES * 20)
    monkeypatch.setattr(commit_file, "_PIECE_BYTES", 100)
    assert written(world, BATCHES * 20) == whole
    with load_commit(world.disk, PATH) as commit:
        assert len(list(commit.batches())) == 40


def test_what_is_not_published_leaves_nothing() -> None:
    world = World(1)
    new = NewCommit(world.disk, PATH, application="a", version=1, producer_id=1, created_ms=0)
    new.add(BATCHES[0])
    for _ in range(2):
        new.discard()
        assert world.disk.names("/") == []
    with pytest.raises(NotFound):
        load_commit(world.disk, PATH)


def test_a_commit_has_no_more_messages_than_sequences_can_tell() -> None:
    new = NewCommit(World(1).disk, PATH, application="a", version=1, producer_id=1, created_ms=0)
    new.add(changed(BATCHES[0], last_offset_delta=COMMIT_MESSAGES_MAX - 1))
    with pytest.raises(TooLarge):
        new.add(BATCHES[1])


def test_the_bytes_of_a_commit_are_those_of_version_1() -> None:
    assert written(World(1)) == (GOLDEN / "commit.bin").read_bytes()


def test_the_page_has_the_table_of_a_commit() -> None:
    assert COMMIT_HEADER.markdown() in PAGE.read_text()


def test_no_truncation_and_no_flipped_bit_of_a_commit_goes_unnoticed() -> None:
    world = World(1)
    data = written(world)
    damaged = [data[:length] for length in range(len(data))]
    damaged += [flipped(data, position, bit) for position in range(len(data)) for bit in range(8)]
    for broken in [*damaged, data + b"\0"]:
        replace(world.disk, PATH, broken)
        with pytest.raises((Torn, Corrupt), match=PATH):
            load_commit(world.disk, PATH)


def test_the_bytes_of_the_ledger_are_those_of_version_1() -> None:
    data = (GOLDEN / "commits.json").read_bytes()
    assert encode_ledger(LEDGER) == data
    assert decode_ledger(data, path="here") == LEDGER
    assert list(decode_ledger(data, path="here")) == list(LEDGER), "the order counts"


def test_no_truncation_and_no_flipped_bit_of_a_ledger_goes_unnoticed() -> None:
    data = encode_ledger(LEDGER)
    for length in range(len(data) - 1):  # without the end of its line it is whole
        with pytest.raises(Corrupt, match="here"):
            decode_ledger(data[:length], path="here")
    for position in range(len(data)):
        for bit in range(8):
            try:
                found = decode_ledger(flipped(data, position, bit), path="here")
            except Corrupt:
                continue
            assert found == LEDGER, "a hex digit in capitals"


@pytest.mark.parametrize("hostile", [b"", b"[]", b"5", b"null", b"{}", b"[" * 100_000, b"\xff"])
def test_what_is_no_ledger_is_corrupt(hostile: bytes) -> None:
    with pytest.raises(Corrupt, match="here"):
        decode_ledger(hostile, path="here")


def test_a_newer_ledger_is_refused_by_name() -> None:
    document = json.loads(encode_ledger(LEDGER))
    newer = {**document, "version": 2, "crc32c": "12345678"}
    with pytest.raises(UnknownVersion, match="expected 1, found 2"):
        decode_ledger(json.dumps(newer).encode(), path="here")


def test_there_is_an_empty_ledger_before_there_is_one() -> None:
    assert load_ledger(World(1).disk, "/commits.json") == {}


def test_the_application_that_is_longest_without_a_commit_is_forgotten() -> None:
    ledger = {name: Committed(1, 0, 1, 0) for name in ("a", "b", "c")}
    newer = Committed(2, 5, 1, 0)
    assert list(with_commit(ledger, "a", newer, count_max=3)) == ["b", "c", "a"]
    assert list(with_commit(ledger, "d", newer, count_max=3)) == ["b", "c", "d"]
    assert with_commit(ledger, "b", newer)["b"] == newer
