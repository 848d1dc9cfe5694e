"""The calls that a script is made of, made on one store: each gives a value that can be compared.

A script has a topic, a log and a bucket of its own. What a call needs of those before it (messages
that are held, ids that were told) is chosen by a number, and so is the same in every store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple
from typing import Any

from lakebed.aof.record_id import RecordId
from lakebed.keratin.config import Ack
from lakebed.keratin.headers import Producer
from lakebed.keratin.raw_records import run_in
from lakebed.keratin.record_batch import build
from lakebed.seglake.model import Content, ObjectToDelete, Versioning
from lakebed.seglake.ranges import ByteRange
from lakebed.stroma.config import GroupConfig
from tests.behaviour.outcomes import Told

Options = dict[str, Any]


def chosen(of: Sequence[Any], number: int) -> Any:
    return of[number % len(of)] if of else None


class Speaker:
    """On one store, in one script."""

    def __init__(self, store: Any, root: str, name: str) -> None:
        self._store = store
        self._name = name
        self.told = Told(root)

    def say(self, call: str, options: Mapping[str, Any]) -> object:
        return self.told.outcome(lambda: getattr(self, call)(**options))


class TopicSpeaker(Speaker):
    def _partition(self, partition: int) -> Any:
        return self._store.topics.open(self._name).partition(partition)

    def create(self, **options: Any) -> object:
        topic = self._store.topics.create(self._name, **options)
        return topic.name, len(topic.partitions), topic.config

    def ensure(self, **options: Any) -> object:
        return len(self._store.topics.ensure(self._name, **options).partitions)

    def create_named(self, name: str) -> object:
        self._store.topics.create(name)
        raise AssertionError(f"{name!r} is no name")

    def configure(self, settings: Options) -> object:
        return self._store.topics.configure(self._name, settings)

    def delete(self) -> object:
        return self._store.topics.delete(self._name)

    def names(self) -> object:
        return [name for name in self._store.topics.names() if name.startswith(self._name)]

    def append(self, ack: str | None, producer: tuple[int, int, int] | None, **options: Any) -> Any:
        topic = self._store.topics.open(self._name)
        future = topic.append_batch(
            **options,
            ack=None if ack is None else Ack(ack),
            producer=None if producer is None else Producer(*producer),
        )
        return future.partition, future.result()

    def append_keyed(self, messages: list[tuple[bytes | None, bytes | None]]) -> object:
        futures = self._store.topics.open(self._name).append_keyed(messages)
        return [(one.partition, one.result()) for one in futures]

    def _stamped(self, messages: Any) -> object:
        """Those of `append_keyed` have the moment of it."""
        return [one._replace(timestamp_ms=min(one.timestamp_ms, 1 << 40)) for one in messages]

    def read(self, partition: int, **options: Any) -> object:
        return self._stamped(self._partition(partition).read(**options))

    def scan(self, partition: int, **options: Any) -> object:
        return self._stamped(self._partition(partition).scan_from(**options))

    def read_batches(self, partition: int, **options: Any) -> object:
        batches = self._partition(partition).read_batches(**options)
        return self._stamped(one for batch in batches for one in batch)

    def get(self, partition: int, offset: int) -> object:
        return self._stamped([self._partition(partition).get(offset)])

    def fetch(self, partition: int, **options: Any) -> object:
        """Bytes differ: of what comes over the wire they say who sent it."""
        data, base_offset, next_offset = self._partition(partition).fetch(**options)
        run = run_in(data, name="test") if len(data) else None
        return base_offset, next_offset, run and run.record_count

    def follow(self, partition: int, start: int | None) -> object:
        found: list[object] = []
        with self._partition(partition).follow(start) as follower:
            while (batch := follower.next_batch(0)) is not None:
                found.append(self._stamped(batch))
            return [one for batch in found for one in batch], follower.position  # type: ignore[attr-defined]

    def ends(self, partition: int) -> object:
        found = self._partition(partition)
        return found.name, found.start_offset(), found.high_watermark(), found.wait_beyond(3, 0)

    def offset_for_time(self, partition: int, timestamp_ms: int) -> object:
        return self._partition(partition).offset_for_time(timestamp_ms)

    def truncate(self, partition: int, offset: int) -> object:
        return self._partition(partition).truncate_before(offset)

    def seal(self, partition: int) -> object:
        return self._partition(partition).seal()

    def sync(self, partition: int) -> object:
        return self._partition(partition).sync()

    def segments(self, partition: int) -> object:
        found = self._partition(partition).segments()
        return [(one.base_offset, one.next_offset, one.is_sealed) for one in found]

    def commit(self, application: str, version: int, batches: dict[int, list[bytes]]) -> object:
        staged = {
            number: [build([one], timestamps_ms=7) if one else b"no batch" for one in theirs]
            for number, theirs in batches.items()
        }
        topic = self._store.topics.open(self._name)
        return [astuple(one) for one in topic.commit_batches(application, version, staged)]


class GroupSpeaker(Speaker):
    def __init__(self, store: Any, root: str, name: str) -> None:
        super().__init__(store, root, name)
        self._topic = store.topic(name, partitions=2)
        self._config = GroupConfig(delivery_count_max=2)
        self._held: list[Any] = []

    def _group(self) -> Any:
        return self._topic.group("a group/ä", config=self._config)

    def append(self, keys: list[bytes], partition: int) -> object:
        values = [b"value of " + key for key in keys]
        partition_of = self._topic.partition(partition)
        return partition_of.append_batch(values, keys=keys, timestamps_ms=5).result()

    def lease(self, **options: Any) -> object:
        leased = self._group().lease(**options)
        self._held += leased
        return leased

    def lease_wrongly(self, **options: Any) -> object:
        """Perhaps, and whose turn it is then is not said: of another group."""
        return len(self._topic.group("another").lease(**options))

    def ack(self, number: int) -> object:
        return self._held and self._group().ack(chosen(self._held, number))

    def ack_all(self, start: int, end: int) -> object:
        return self._group().ack_all(self._held[start:end])

    def nack(self, number: int, delay_ms: int) -> object:
        return self._held and self._group().nack(chosen(self._held, number), delay_ms=delay_ms)

    def nack_all(self, start: int, end: int) -> object:
        return self._group().nack_all(self._held[start:end])

    def extend(self, number: int, lease_ms: int | None) -> object:
        message = chosen(self._held, number)
        return message and self._group().extend(message, lease_ms=lease_ms)

    def ack_stolen(self, number: int, epoch: int) -> object:
        """As another who leased it before, or never."""
        message = chosen(self._held, number)
        return message and self._group().ack(message._replace(epoch=message.epoch + epoch))

    def lag(self) -> object:
        return self._group().lag()

    def describe(self) -> object:
        return self._group().describe()

    def peek(self, **options: Any) -> object:
        return self._group().peek(**options)

    def reset(self, partition: int | None) -> object:
        return self._group().reset(partition=partition)

    def seek(self, offset: int, partition: int) -> object:
        return self._group().seek(offset, partition=partition)

    def seek_to_time(self, timestamp_ms: int) -> object:
        return self._group().seek(timestamp_ms=timestamp_ms)

    def seek_to_end(self) -> object:
        return self._group().seek(to_end=True)

    def dead_letters(self) -> object:
        return [
            (one.origin, one.message._replace(timestamp_ms=0))
            for one in self._group().dead_letters()
        ]

    def redrive(self, max_messages: int) -> object:
        return self._group().redrive(max_messages=max_messages)

    def groups(self) -> object:
        return self._store.topics.open(self._name).groups()

    def delete_group(self, group: str) -> object:
        return self._store.topics.open(self._name).delete_group(group)


class LogSpeaker(Speaker):
    def __init__(self, store: Any, root: str, name: str) -> None:
        super().__init__(store, root, name)
        self._pin_ids: list[str] = []
        self._ids: list[RecordId] = []

    @property
    def _log(self) -> Any:
        return self._store.log(self._name)

    def _id(self, number: int | None) -> RecordId | None:
        """Of a record; or, of a negative number, one that is none."""
        if number is None:
            return None
        if number < 0 or not self._ids:
            return RecordId.from_parts(abs(number) % 5, 64 + 8 * (abs(number) % 7))
        return self._ids[number % len(self._ids)]

    def open(self, name: str) -> object:
        return self._store.log(name).name

    def append(self, **options: Any) -> object:
        ids = self._log.append_records(**options)
        self._log.flush()
        self._ids += ids
        return ids

    def append_one(self, timeout: float | None, **options: Any) -> object:
        if timeout is None:
            record_id = self._log.append_record(**options)
        else:
            record_id = self._log.append_record_with_timeout(timeout=timeout, **options)
        self._log.flush(record_id, timeout=60)
        self._ids.append(record_id)
        return record_id

    def get(self, number: int) -> object:
        return self._log.get(self._id(number))

    def read(self, start: int | None, end: int | None) -> object:
        return self._log.read(self._id(start), self._id(end))

    def read_batches(self, start: int | None, end: int | None) -> object:
        found = self._log.read_batches(self._id(start), self._id(end))
        return [(batch.segment_id, batch.base_offset, list(batch)) for batch in found]

    def read_backward(self, start: int | None) -> object:
        return self._log.read_backward(self._id(start))

    def follow(self, start: int | None) -> object:
        found: list[object] = []
        with self._log.follow(self._id(start)) as follower:
            while (batch := follower.next_batch(0)) is not None:
                found += list(batch)
            return found

    def seek_timestamp(self, timestamp_ns: int) -> object:
        return self._log.seek_timestamp(timestamp_ns)

    def seal(self) -> object:
        return self._log.seal_current_segment(timeout=60)

    def segments(self) -> object:
        return self._log.segments()

    def residency(self) -> object:
        return [(one.segment_id, one.tiers, one.is_sealed) for one in self._log.tiers.residency()]

    def watermark(self, watermark: int) -> object:
        self._log.set_coordinator_watermark(watermark)
        return self._log.coordinator_watermark

    def ends(self) -> object:
        end = self._log.durable_end()
        return end, self._log.wait_beyond(end, 0)

    def pin(self, **options: Any) -> object:
        return self._created(self._store.pins.pin(self._name, owner=self._name, **options))

    def pin_offsets(self, partition: int, **options: Any) -> object:
        pins = self._store.pins
        return self._created(pins.pin_offsets(self._name, partition, owner=self._name, **options))

    def _created(self, pin: Any) -> Any:
        self._pin_ids.append(pin.pin_id)
        return pin

    def _pins(self) -> list[Any]:
        """In the order of their creation: their ids are random, and differ from side to side."""
        pins = [*self._store.pins.active(), *self._store.pins.active_offsets()]
        mine = [pin for pin in pins if pin.owner == self._name]
        return sorted(mine, key=lambda pin: self._pin_ids.index(pin.pin_id))

    def active(self) -> object:
        return self._pins()

    def renew(self, number: int, duration_ms: int) -> object:
        pin = chosen(self._pins(), number)
        pin_id = "0" * 32 if pin is None else pin.pin_id
        return self._store.pins.renew(pin_id, duration_ms=duration_ms)

    def release(self, number: int) -> object:
        pin = chosen(self._pins(), number)
        return self._store.pins.release("nonsense/../" if pin is None else pin.pin_id)


class ObjectSpeaker(Speaker):
    def __init__(self, store: Any, root: str, name: str) -> None:
        super().__init__(store, root, name)
        self._versions: list[str] = []
        self._keys: list[str] = []

    @property
    def _bucket(self) -> Any:
        return self._store.bucket(self._name)

    def _version(self, number: int | None) -> str | None:
        if number is None:
            return None
        found: str | None = chosen(self._versions, number)
        return "01234567890123456789012345" if number < 0 or found is None else found

    def bucket(self, versioning: str | None) -> object:
        kind = None if versioning is None else Versioning(versioning)
        return self._store.bucket(self._name, versioning=kind).info

    def bucket_named(self, name: str) -> object:
        return self._store.bucket(name).name

    def set_versioning(self, versioning: str) -> object:
        return self._bucket.set_versioning(Versioning(versioning))

    def buckets(self) -> object:
        return [one for one in self._store.buckets() if one.name == self._name]

    def delete_bucket(self) -> object:
        return self._store.delete_bucket(self._name)

    def put(self, content: Options | None, **options: Any) -> object:
        put = self._bucket.put(**options, content=None if content is None else Content(**content))
        self._versions.append(put.version_id)
        return put

    def get(self, key: str, version: int | None, byte_range: tuple[Any, Any] | None) -> object:
        reader = self._bucket.get(
            key,
            version_id=self._version(version),
            byte_range=None if byte_range is None else ByteRange(*byte_range),
        )
        return reader.info, len(reader), reader.read()

    def read(self, key: str, version: int | None) -> object:
        return self._bucket.read(key, version_id=self._version(version))

    def head(self, key: str, version: int | None) -> object:
        return self._bucket.head(key, version_id=self._version(version))

    def delete(self, key: str, version: int | None, if_match: str | None) -> object:
        return self._bucket.delete(key, version_id=self._version(version), if_match=if_match)

    def delete_many(self, keys: list[str], version: int | None) -> object:
        doomed = ObjectToDelete(keys[0] if keys else "k", self._version(version))
        return self._bucket.delete_many([*keys, doomed])

    def list(self, **options: Any) -> object:
        return self._bucket.list(**options)

    def list_page(self, **options: Any) -> object:
        page = self._bucket.list_page(**options)
        return page.items, page.prefixes, page.next_marker

    def create_key(self, **options: Any) -> object:
        created = self._store.keys.create(**options)
        self._keys.append(created.info.access_key)
        return created.info

    def key(self, call: str, number: int) -> object:
        name = "LAKENOBODY" if number < 0 else chosen(self._keys, number)
        return getattr(self._store.keys, call)(name or "nobody/%00")
