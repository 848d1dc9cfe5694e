"""Messages that opening found to be lost: readers stop there in every way that programs have the
store, until the loss is acknowledged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakebed.base.errors import Corrupt
from lakebed.store.store import Store

COUNT = 40  # messages of a kibibyte, some 15 to a segment


@pytest.fixture(params=[0, 1])
def lost(tmp_path: Path, request: pytest.FixtureRequest) -> range:
    """The offsets of a sealed segment that is missing: the oldest one, and the next."""
    with Store.open(tmp_path / "store") as store:
        topic = store.topics.create("orders", settings={"segment_bytes": "16KiB"})
        for number in range(COUNT):
            topic.append_batch([b"%04d%s" % (number, b"x" * 1000)]).result()
        segment = topic.partition(0).segments()[request.param]
    Path(segment.path).unlink()
    return range(segment.base_offset, segment.next_offset)


def test_readers_stop_at_lost_messages_until_the_loss_is_acknowledged(
    lost: range, store: Any
) -> None:
    partition = store.topic("orders").partition(0)
    kept = [number for number in range(COUNT) if number not in lost]
    followed = partition.follow()
    for read in (partition.read, lambda: partition.scan_from(0), lambda: followed):
        seen: list[int] = []
        with pytest.raises(Corrupt, match="lakebed damage acknowledge 1"):
            seen.extend(message.offset for message in read())
        assert seen == [number for number in kept if number < lost.start]
    with pytest.raises(Corrupt):
        partition.get(lost.start)
    with pytest.raises(Corrupt):
        partition.fetch(lost.start, max_bytes=1000)
    followed.close()
    [record] = store.damage.list()
    assert (record.first_offset, record.next_offset) == (lost.start, lost.stop)
    store.damage.acknowledge(record.id)
    assert [message.offset for message in partition.read()] == kept
