"""A remote store: the remote form of `lakebed.store.store.Store`."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from random import Random
from secrets import randbits
from typing import TYPE_CHECKING, Any

from lakebed.api import admin, logs
from lakebed.api import objects as wire_objects
from lakebed.api import topics as wire_topics
from lakebed.api.operation import Operation
from lakebed.api.plans import PLAN_LOGS, PLAN_TOPICS, PlannedReads, PlanReads
from lakebed.base.runner import Runner, ThreadRunner
from lakebed.client.address import Address, PathLike, address_of
from lakebed.client.caller import ANSWER_S, Caller
from lakebed.client.damage import RemoteDamage
from lakebed.client.errors import BadAnswer
from lakebed.client.group import RemoteGroup
from lakebed.client.log import RemoteLog
from lakebed.client.message_appender import MessageAppender
from lakebed.client.pins import RemotePins
from lakebed.client.producer_pool import ProducerPool
from lakebed.client.retry_schedule import RETRY_S
from lakebed.client.topic import RemoteTopic
from lakebed.client.topics import RemoteTopics
from lakebed.store.dead_letters import DeadLetter
from lakebed.store.read_plan import PlannedRead, WantedRead
from lakebed.store.store_state import StoreState
from lakebed.store.summary import LogSummary
from lakebed.store.topic_summary import TopicSummary
from lakebed.store.version import StoreVersion

# Imported on first use: a program that uses only topics does not need the object store.
if TYPE_CHECKING:
    from lakebed.client.access_keys import RemoteAccessKeys
    from lakebed.client.bucket import RemoteBucket
    from lakebed.client.maintenance import RemoteMaintenance
    from lakebed.client.manifest_log import RemoteManifestLog
    from lakebed.seglake.model import BucketInfo, Versioning


class RemoteStore:
    """A remote store. Thread-safe. A forked child can use it too, and makes its own connections."""

    @staticmethod
    def open(
        url_or_root: PathLike,
        *,
        access_key: str | None = None,
        secret_key: str | None = None,
        ca_file: PathLike | None = None,
        context: ssl.SSLContext | None = None,
        retry_s: float = RETRY_S,
        answer_s: float = ANSWER_S,
    ) -> RemoteStore:
        """Returns the store at a URL, or at the socket of a root. Does not connect yet; see
        `health`.

        `retry_s` limits how long a call is retried, in seconds, while the server is busy or does
        not respond; a call is retried only if that is safe. `answer_s` limits how long the server
        may send nothing, in seconds.
        """
        address = address_of(
            url_or_root,
            access_key=access_key,
            secret_key=secret_key,
            ca_file=ca_file,
            context=context,
        )
        return RemoteStore(address, retry_s=retry_s, answer_s=answer_s)

    def __init__(
        self,
        address: Address,
        *,
        retry_s: float = RETRY_S,
        answer_s: float = ANSWER_S,
        runner: Runner | None = None,
        random: Random | None = None,
    ) -> None:
        self._own_runner = ThreadRunner() if runner is None else None
        self._caller = Caller(
            address,
            runner=runner or self._own_runner or ThreadRunner(),
            random=random or Random(randbits(64)),
            retry_s=retry_s,
            answer_s=answer_s,
        )
        self._producing = MessageAppender(self._caller, ProducerPool(runner=self._caller.runner))
        self.topics = RemoteTopics(self._caller, self._producing)
        self.pins = RemotePins(self._caller)
        self.damage = RemoteDamage(self._caller)

    @property
    def address(self) -> str:
        """The path of the socket, or the host and the port."""
        return str(self._caller.address)

    def logs(self) -> list[str]:
        """Lists the names of all logs."""
        return self._caller.call(logs.LIST_LOGS).logs

    def log(self, name: str) -> RemoteLog:
        """Returns the log of that name, and creates it if there is none."""
        return RemoteLog(self._caller, self._caller.call(logs.OPEN_LOG, {"log": name}))

    def open_log(self, name: str) -> RemoteLog:
        """Returns the log of that name. Raises `NotFound` if there is none."""
        return RemoteLog(self._caller, self._caller.call(logs.DESCRIBE_LOG, {"log": name}))

    def log_summary(self, name: str) -> LogSummary:
        """Summarises a log from its files, without reading the records of its sealed segments.
        Raises `NotFound` if there is no such log."""
        return self._caller.call(logs.LOG_SUMMARY, {"log": name})

    def plan_logs(
        self, reads: Sequence[WantedRead], *, duration_ms: int, owner: str
    ) -> list[PlannedRead]:
        """Plans reads of any number of logs: finds the record ids at which they start and end, and
        lists points at which they can be split.

        Pins the segments to read for `duration_ms`, unless that is 0.
        """
        return _plan_reads(self._caller, PLAN_LOGS, PlanReads(list(reads), owner, duration_ms))

    def manifest_log(self, name: str) -> RemoteManifestLog | None:
        """Returns the manifest log of a log; None if the log has none.

        `name` is the name of the log or its stream id. Raises `NotFound` if there is no such log.
        """
        from lakebed.client.manifest_log import find_manifest_log

        return find_manifest_log(self._caller, name)

    def tier2_of(self, log: str) -> str:
        """Returns the address of a log's Tier 2: a URL, or the path of a folder."""
        return self._caller.call(logs.LOG_TIER2, {"log": log}).address

    def topic(self, name: str, *, partitions: int | None = None) -> RemoteTopic:
        """Returns the topic of that name, and creates it if there is none.

        A new topic has `partitions` partitions, by default one. Raises `InputError` if `partitions`
        is given and the topic exists with another number.
        """
        return self.topics.ensure(name, partitions=partitions)

    def topic_summary(self, name: str) -> TopicSummary:
        """Summarises a topic from its files, without opening it. Raises `NotFound` if there is no
        such topic."""
        return self._caller.call(wire_topics.TOPIC_SUMMARY, {"topic": name})

    def dead_letters(
        self, topic: str, group: str, *, max_messages: int | None = None
    ) -> list[DeadLetter]:
        """Lists up to `max_messages` dead letters of a group (by default, all) that were not sent
        back to the topic: partition by partition, and in each partition oldest first."""
        return RemoteGroup(self._caller, topic, group).first_dead_letters(max_messages)

    def plan_topics(
        self, reads: Sequence[WantedRead], *, duration_ms: int, owner: str
    ) -> list[PlannedRead]:
        """Plans reads of any number of topics: finds the offsets at which they start and end, and
        lists points at which they can be split.

        Pins the offsets to read for `duration_ms`, unless that is 0.
        """
        return _plan_reads(self._caller, PLAN_TOPICS, PlanReads(list(reads), owner, duration_ms))

    def buckets(self) -> list[BucketInfo]:
        """Lists all buckets, sorted by name."""
        return self._caller.call(wire_objects.LIST_BUCKETS).buckets

    def bucket(self, name: str, *, versioning: Versioning | None = None) -> RemoteBucket:
        """Returns the bucket of that name, and creates it if there is none.

        Raises `BucketExists` if a `versioning` is given and the bucket exists with another.
        """
        from lakebed.client.bucket import RemoteBucket

        body = wire_objects.NewBucket(versioning=versioning)
        info = self._caller.call(wire_objects.ENSURE_BUCKET, {"bucket": name}, body=body)
        return RemoteBucket(self._caller, info.name)

    def open_bucket(self, name: str) -> RemoteBucket:
        """Returns the bucket of that name. Raises `NoSuchBucket` if there is none."""
        from lakebed.client.bucket import RemoteBucket

        info = self._caller.call(wire_objects.DESCRIBE_BUCKET, {"bucket": name})
        return RemoteBucket(self._caller, info.name)

    def delete_bucket(self, name: str) -> None:
        """Deletes a bucket, and aborts its multipart uploads. Raises `BucketNotEmpty` if it
        contains an object version."""
        self._caller.call(wire_objects.DELETE_BUCKET, {"bucket": name})

    @property
    def keys(self) -> RemoteAccessKeys:
        """The access keys, with which clients use the store over S3 and over HTTP on a TCP port."""
        from lakebed.client.access_keys import RemoteAccessKeys

        return RemoteAccessKeys(self._caller)

    # The store itself.

    def health(self) -> admin.Health:
        return self._caller.call(admin.HEALTH)

    def state(self) -> StoreState:
        """Describes the store: its versions, its logs, topics and buckets, and the free disk
        space."""
        return self._caller.call(admin.STATE)

    def counters(self) -> dict[str, dict[str, dict[str, int | float]]]:
        """Returns the counters by engine, then by the part that they count (such as a log, a
        partition or a group), then by name."""
        return self._caller.call(admin.COUNTERS).counters

    def configuration(self) -> dict[str, dict[str, Any]]:
        """Returns the settings in effect, by section and name, with secrets hidden."""
        return self._caller.call(admin.CONFIGURATION).sections

    @property
    def maintenance(self) -> RemoteMaintenance:
        """Verification, repair, and moves of segments between tiers.

        The process that has the store open does the work.
        """
        from lakebed.client.maintenance import RemoteMaintenance

        return RemoteMaintenance(self._caller)

    @property
    def version(self) -> StoreVersion:
        """The version of the store's format, the times when the store was created and restored, and
        the release of Lakebed that has it open."""
        state = self.state()
        return StoreVersion(
            version=state.store_version,
            created_ms=state.created_ms,
            restored_ms=state.restored_ms,
            program=state.version,
        )

    @property
    def root(self) -> str:
        """The path of the store's folder on the machine of the process that has the store open."""
        return self.state().root

    def close(self) -> None:
        """Closes all connections. Calls in progress end with `Closed`. Idempotent."""
        self._caller.close()
        if self._own_runner is not None:
            self._own_runner.close()

    def __enter__(self) -> RemoteStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<RemoteStore {self.address}>"


def _plan_reads(
    caller: Caller, operation: Operation[PlannedReads], plan: PlanReads
) -> list[PlannedRead]:
    """Sends a plan to the server. Returns one planned read for each read of the plan, in order."""
    reads = caller.call(operation, body=plan).reads
    if len(reads) != len(plan.reads):
        raise BadAnswer(
            f"{operation.name}: the number of reads in the response differs from the request"
        )
    return reads


if TYPE_CHECKING:
    from lakebed.api import surface

    _REMOTE: type[surface.Store] = RemoteStore
