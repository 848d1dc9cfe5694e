"""Raw records that came from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lakebed.base.errors import Corrupt
from lakebed.base.runner import ThreadRunner
from lakebed.keratin.config import TopicConfig
from lakebed.keratin.message import Message
from lakebed.keratin.partition import Partition
from lakebed.keratin.raw_records import batches_in, run_in
from lakebed.keratin.topics import Topics
from lakebed.kernels.disk import real_disk

NAME = "orders-0"


@pytest.fixture
def partition(tmp_path: Path) -> Iterator[Partition]:
    with ThreadRunner() as runner:
        topics = Topics(tmp_path, disk=real_disk(), runner=runner, config=TopicConfig())
        yield topics.create("orders").partition(0)
        topics.close()


def messages_in(data: bytes | memoryview, *, start: int = 0, end: int = 1000) -> list[Message]:
    return [one for batch in batches_in(data, start=start, end=end, name=NAME) for one in batch]


def test_they_are_the_messages_of_the_partition(partition: Partition) -> None:
    partition.append_batch([b"a", b"b"], keys=[b"k", None], headers=[[("h", b"1")], []]).result()
    partition.append_batch([None], keys=[b"k"]).result()
    data = partition.fetch(0, max_bytes=1000).data
    assert messages_in(data) == list(partition.read())
    assert messages_in(bytes(data), start=1, end=2) == list(partition.read(1, 2))


def test_no_bytes_are_no_records() -> None:
    assert run_in(b"", name=NAME) is None
    assert messages_in(b"") == []


def test_bytes_that_are_cut_or_changed_anywhere_are_damaged(partition: Partition) -> None:
    partition.append_batch([b"value one", b"value two"], keys=[b"k", b"l"]).result()
    data = bytes(partition.fetch(0, max_bytes=1000).data)
    whole = [bytes(data[: len(data) // 2]), data]  # two records of one length
    for length in range(1, len(data)):
        if data[:length] not in whole:
            with pytest.raises(Corrupt, match=NAME):
                run_in(data[:length], name=NAME)
    for place in range(len(data)):
        damaged = bytearray(data)
        damaged[place] ^= 0x10
        with pytest.raises(Corrupt, match=NAME):
            run_in(damaged, name=NAME)
    with pytest.raises(Corrupt):
        run_in(data + bytes(100), name=NAME)


def test_records_out_of_order_are_damage(partition: Partition) -> None:
    partition.append_batch([b"value one", b"value two"]).result()
    data = bytes(partition.fetch(0, max_bytes=1000).data)
    half = len(data) // 2
    for wrong in (data[half:] + data[:half], data[:half] * 2):
        with pytest.raises(Corrupt, match="out of order"):
            run_in(wrong, name=NAME)
