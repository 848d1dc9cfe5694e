"""Stages record batches in a bucket of the store, for tasks that cannot access the store's files.

    lakebed-staged/<run>/decision.json
    lakebed-staged/<run>/<token>/<partition>-<number>

Each attempt of a task has its own random token, so no two attempts write the same key. Use a bucket
without versioning; otherwise old versions of removed batches stay in the bucket.
"""

from __future__ import annotations

import secrets

from lakebed.base.clock import NS_PER_MS, Clock
from lakebed.base.errors import NotFound
from lakebed.base.units import MIB
from lakebed.client.bucket import RemoteBucket
from lakebed.seglake.errors import PreconditionFailed
from lakebed.spark.staging import (
    KEPT_DECIDED_MS,
    KEPT_MS,
    Batches,
    Decision,
    Run,
    decode_decision,
    encode_decision,
)
from lakebed.store.staged_batch import StagedObject

PREFIX = "lakebed-staged/"
DECISION = "decision.json"
OBJECT_BYTES = 8 * MIB  # a partition's batches are written when they reach this size
HELD_BYTES_MAX = 64 * MIB  # in memory, for all partitions together


class BucketStaging:
    """Keeps record batches in a bucket until they are committed; implements
    `lakebed.spark.staging.Staging`.
    """

    def __init__(self, bucket: RemoteBucket, *, clock: Clock) -> None:
        self._bucket = bucket
        self._clock = clock

    def writer(self, run: Run) -> BucketWriter:
        return BucketWriter(self._bucket, f"{_prefix(run)}{secrets.token_hex(8)}/")

    def decide(self, run: Run, batches: Batches) -> Batches:
        data = encode_decision(Decision(self._now_ms(), batches))
        while True:
            decision = self._decision(run)
            if decision is not None:
                return decision.batches
            try:
                self._bucket.put(_prefix(run) + DECISION, data, if_none_match="*")
            except PreconditionFailed:
                continue  # another process just decided, or this request was sent twice
            return batches

    def forget(self, run: Run) -> None:
        self._bucket.delete(_prefix(run) + DECISION)

    def discard(self, run: Run, batches: Batches) -> None:
        decision = self._decision(run)
        decided = set() if decision is None else decision.staged
        staged = [
            batch
            for of_partition in batches.values()
            for batch in of_partition
            if batch not in decided
        ]
        self._delete([batch.key for batch in staged if isinstance(batch, StagedObject)])

    def remove(self, run: Run) -> None:
        self.forget(run)  # first, so that no decision names missing objects
        self._delete([row.key for row in self._bucket.list(_prefix(run))])

    def remove_leftovers(self) -> int:
        last_ms: dict[str, int] = {}
        decided: set[str] = set()
        keys: dict[str, list[str]] = {}
        for row in self._bucket.list(PREFIX):
            name, _, name_in_run = row.key.removeprefix(PREFIX).partition("/")
            last_ms[name] = max(last_ms.get(name, 0), row.modified_ms)
            keys.setdefault(name, []).append(row.key)
            if name_in_run == DECISION:
                decided.add(name)
        now_ms = self._now_ms()
        old = [
            name
            for name, at_ms in last_ms.items()
            if now_ms - at_ms > (KEPT_DECIDED_MS if name in decided else KEPT_MS)
        ]
        for name in old:
            self._delete(sorted(keys[name], key=lambda key: not key.endswith(DECISION)))
        return len(old)

    def _decision(self, run: Run) -> Decision | None:
        key = _prefix(run) + DECISION
        try:
            return decode_decision(self._bucket.read(key), path=key)
        except NotFound:
            return None

    def _delete(self, keys: list[str]) -> None:
        for outcome in self._bucket.delete_many(keys) if keys else ():
            if isinstance(outcome, Exception) and not isinstance(outcome, NotFound):
                raise outcome

    def _now_ms(self) -> int:
        return self._clock.wall_ns() // NS_PER_MS


class BucketWriter:
    """Stages the batches of one task: collects them in memory, and writes those of a partition as
    an object when they reach 8 MiB.

    The rest is written at the end of the task, and whenever 64 MiB are in memory.
    """

    def __init__(self, bucket: RemoteBucket, prefix: str) -> None:
        self._bucket = bucket
        self._prefix = prefix
        self._held: dict[int, list[bytes]] = {}
        self._held_bytes = 0
        self._sent: Batches = {}

    def append(self, partition: int, batch: bytes) -> None:
        held = self._held.setdefault(partition, [])
        held.append(batch)
        self._held_bytes += len(batch)
        if sum(map(len, held)) >= OBJECT_BYTES:
            self._send(partition)
        elif self._held_bytes >= HELD_BYTES_MAX:
            self._send_all()

    def finish(self) -> Batches:
        self._send_all()
        return self._sent

    def discard(self) -> None:
        staged = [batch for of_partition in self._sent.values() for batch in of_partition]
        self._held, self._held_bytes, self._sent = {}, 0, {}
        keys = [batch.key for batch in staged if isinstance(batch, StagedObject)]
        if keys:
            self._bucket.delete_many(keys)

    def _send_all(self) -> None:
        for partition in sorted(self._held):
            self._send(partition)

    def _send(self, partition: int) -> None:
        data = b"".join(self._held.pop(partition))
        sent = self._sent.setdefault(partition, [])
        key = f"{self._prefix}{partition}-{len(sent)}"
        self._bucket.put(key, data)
        sent.append(StagedObject(self._bucket.name, key))
        self._held_bytes -= len(data)


def _prefix(run: Run) -> str:
    return f"{PREFIX}{run.name}/"
