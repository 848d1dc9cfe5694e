"""Stores that have something in every engine and every tier, and ways to damage each of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lakebed.host.store import Store
from lakebed.keratin.config import TopicConfig
from lakebed.seglake.config import SeglakeConfig
from lakebed.seglake.manifest import decode
from lakebed.seglake.model import Versioning
from lakebed.store.lake_object_store import BUCKET
from lakebed.store.read_only import ReadOnlyStore
from tests.aof.tiers.tiered_logs import write_segments
from tests.seglake.damaged_lakes import flip, segment_file
from tests.store.lake_tiers import CONFIG, SHARED

OBJECTS = SeglakeConfig(reserve_bytes=0, cache_bytes=0, part_bytes_min=1)
TOPICS = TopicConfig(segment_bytes=64 * 1024)
CHUNK = 4 * 1024 * 1024
BIG = bytes(range(256)) * (9 << 12)  # three chunks


def open_store(root: Path) -> Store:
    return Store.open(
        root, config=CONFIG, tier_config=SHARED, object_config=OBJECTS, topic_config=TOPICS
    )


def write_store(root: Path) -> None:
    """A log in all tiers, a topic of two partitions, buckets with and without versions."""
    with open_store(root) as store:
        log = store.log("orders")
        write_segments(log, 5)
        log.tiers.upload([0, 1, 2])
        log.tiers.evict([0, 1], warm=True)
        log.tiers.evict([2])
        write_segments(log, 1)
        log.append_record_with_timeout(b"not sealed", 10)
        log.flush()
        write_segments(store.log("other"), 2)
        topic = store.topic("events", partitions=2)
        for number in (0, 1):
            partition = topic.partition(number)
            for start in (0, 20, 40):
                values = [b"event %d " % (start + index) * 50 for index in range(20)]
                partition.append_batch(values)
                if start < 40:
                    partition.seal()
        photos = store.bucket("photos", versioning=Versioning.ENABLED)
        photos.put("big", BIG)
        photos.put("small", b"old")
        photos.put("small", b"some bytes")
        photos.put("gone", b"gone")
        photos.delete("gone")
        plain = store.bucket("plain", versioning=Versioning.DISABLED)
        for number in range(5):
            plain.put(f"key/{number}", b"%d" % number * 1000)
        plain.upload("begun").put(4, b"four")


# Damage.


def damage_hot(root: Path) -> None:
    flip(_log_segment(root, 4), 200)


def damage_warm(root: Path) -> None:
    [path] = (root / "aof" / "orders" / "warm").glob("*.zst")
    flip(path, 100)


def damage_cold(root: Path) -> None:
    with ReadOnlyStore(root) as store:
        key = min(row.key for row in store.bucket(BUCKET).list() if "segment-" in row.key)
    flip_chunk(root, BUCKET, key)


def damage_topic(root: Path) -> None:
    flip(topic_segment(root, 0), 300)


def damage_chunk(root: Path) -> None:
    flip_chunk(root, "photos", "big", index=1)


DAMAGES: dict[str, Callable[[Path], None]] = {
    "hot": damage_hot,
    "warm": damage_warm,
    "cold": damage_cold,
    "topic": damage_topic,
    "chunk": damage_chunk,
}


def topic_segment(root: Path, index: int) -> Path:
    folder = root / "topics" / "events" / "0" / "segments"
    return sorted(folder.glob("*.log"))[index]


def flip_chunk(root: Path, bucket: str, key: str, *, index: int = 0) -> None:
    """A bit of a chunk of an object's newest version."""
    with ReadOnlyStore(root) as store, store.lake.metadata.snapshot() as reader:
        found = reader.current_manifest(bucket, key)
    assert found is not None
    chunk = decode(found[1], path="").chunks[index]
    flip(segment_file(root, chunk.segment_id), chunk.offset + chunk.length // 2)


def _log_segment(root: Path, segment_id: int) -> Path:
    [path] = (root / "aof" / "orders" / "segments").glob(f"{segment_id:020}_*.seg")
    return path
