"""Topics over the wire: what they are, producing to them, fetching from them, and batch commits.

Messages travel as columns: an item of each for every message. A column that is left out is empty
for all of them.
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, Struct

from lakebed.api.operation import Nothing, Operation, Raw
from lakebed.base.units import MIB
from lakebed.keratin.view import PartitionSegment
from lakebed.store.read_plan import TopicRange
from lakebed.store.staged_batch import CommittedPartition
from lakebed.store.topic_summary import TopicSummary

INT64_MAX = (1 << 63) - 1
Count = Annotated[int, Meta(ge=0, le=INT64_MAX)]
Header = tuple[str, bytes | None]
Settings = dict[str, int | float | bool | str]

BODY_BYTES_MAX = 72 * MIB  # of messages: those of an append, and what is written around them
MESSAGES_MAX = 1_000_000  # of a produce
FETCH_BYTES_MAX = 32 * MIB
WAIT_MS_MAX = 60_000
_TAG = "topics"

MaxMessages = Annotated[int, Meta(ge=1, le=100_000)]
MaxBytes = Annotated[int, Meta(ge=1, le=FETCH_BYTES_MAX)]
WaitMs = Annotated[int, Meta(ge=0, le=WAIT_MS_MAX)]


class TopicNames(Struct, frozen=True):
    topics: list[str]


class NewTopic(Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    partitions: int = 1
    settings: Settings = {}


class EnsuredTopic(Struct, frozen=True, forbid_unknown_fields=True):
    """Without `partitions` whatever there is will do, or a new one has one."""

    partitions: int | None = None
    settings: Settings = {}


class Configure(Struct, frozen=True, forbid_unknown_fields=True):
    settings: Settings


class PartitionState(Struct, frozen=True):
    partition: int
    start_offset: int  # of the first message that may be read
    high_watermark: int  # behind the last durable message


class TopicState(Struct, frozen=True):
    name: str
    partitions: list[PartitionState]
    settings: Settings  # all of them, as they count
    topic_id: str = ""  # another one, if it was deleted and made again; older servers tell none


class WireProducer(Struct, frozen=True, forbid_unknown_fields=True):
    """What it sent before is recognised, and not appended again."""

    id: Annotated[int, Meta(ge=0, le=INT64_MAX)]
    epoch: Annotated[int, Meta(ge=0, lt=1 << 15)]
    sequence: Annotated[int, Meta(ge=0, lt=1 << 31)]  # of the first message


class Produce(Struct, frozen=True, forbid_unknown_fields=True):
    """To `partition`; else each message to its key's, and those without a key to the next in turn.

    With a `producer` all go to one partition, and it must be said which one.
    """

    values: Annotated[list[bytes | None], Meta(max_length=MESSAGES_MAX)]  # None deletes the key
    keys: Annotated[list[bytes | None], Meta(max_length=MESSAGES_MAX)] | None = None
    headers: Annotated[list[list[Header]], Meta(max_length=MESSAGES_MAX)] | None = None
    timestamps_ms: Annotated[list[int], Meta(max_length=MESSAGES_MAX)] | None = None  # else now
    partition: int | None = None
    producer: WireProducer | None = None
    not_before_ms: Count = 0  # groups deliver them at that moment at the earliest
    ack: str | None = None  # after_fsync or after_write; else as the topic says
    timeout_ms: Count | None = None  # to wait for room; else the call is refused at once


class ProduceQuery(Struct, frozen=True):
    """For bodies of lines, or of one message's bytes; a document says all of it itself."""

    partition: int | None = None
    key: str | None = None
    ack: str | None = None
    timestamp_ms: int | None = None
    not_before_ms: Count = 0
    producer_id: int | None = None
    producer_epoch: int = 0
    producer_sequence: int = 0


class Appended(Struct, frozen=True):
    partition: int
    base_offset: int
    count: int


class Produced(Struct, frozen=True):
    appended: list[Appended]  # by partition


class FetchQuery(Struct, frozen=True):
    offset: Count = 0
    max_messages: MaxMessages = 1000
    max_bytes: MaxBytes = 1 * MIB
    wait_ms: WaitMs = 0  # for the first one


class Messages(Struct, frozen=True):
    partition: int
    offsets: list[int]
    timestamps_ms: list[int]
    keys: list[bytes | None]
    values: list[bytes | None]
    headers: list[list[Header]]
    flags: list[int]
    next_offset: int  # from where to fetch on
    start_offset: int
    high_watermark: int


class RawFetchQuery(Struct, frozen=True):
    offset: Count = 0
    max_bytes: MaxBytes = 1 * MIB
    wait_ms: WaitMs = 0


class OffsetQuery(Struct, frozen=True):
    timestamp_ms: int


class Offset(Struct, frozen=True):
    offset: int


class AdvanceTopics(Struct, frozen=True, forbid_unknown_fields=True):
    ranges: list[TopicRange]
    max_messages: Count | None = None
    max_bytes: Count | None = None


class AdvancedTopics(Struct, frozen=True):
    ends: list[int]  # of each range, in their order


class Offsets(Struct, frozen=True):
    offsets: list[int]  # by partition


class Truncate(Struct, frozen=True, forbid_unknown_fields=True):
    before: Count


class Truncated(Struct, frozen=True):
    segments: int  # that went with the messages


class Sealed(Struct, frozen=True):
    is_sealed: bool  # False if there was nothing to seal


class TopicSegments(Struct, frozen=True):
    """What a reader without the files needs for a plan. Pin the offsets before reading them."""

    segments: list[PartitionSegment]
    start_offset: int
    high_watermark: int


class SegmentBytesQuery(Struct, frozen=True):
    offset: Count = 0  # bytes
    length: Annotated[int, Meta(ge=1)] | None = None  # else all of it
    generation: int | None = None  # `NotFound` if it is another one by now


class StagedBatch(Struct, frozen=True, forbid_unknown_fields=True):
    """A Kafka record batch (version 2), or several: here, or where the writer can read it."""

    data: bytes | None = None
    path: str | None = None  # a file
    bucket: str | None = None  # an object of the store
    key: str | None = None


class StagedPartition(Struct, frozen=True, forbid_unknown_fields=True):
    partition: int
    batches: list[StagedBatch]


class BatchCommit(Struct, frozen=True, forbid_unknown_fields=True):
    """All batches of a partition are appended or none, and those of a version only once.

    Versions of an application grow: what is not larger than the last one was committed before.
    """

    application: Annotated[str, Meta(min_length=1, max_length=256)]
    version: Annotated[int, Meta(ge=0, le=INT64_MAX)]
    partitions: list[StagedPartition]


class Committed(Struct, frozen=True):
    partitions: list[CommittedPartition]


LIST_TOPICS: Final = Operation(
    "list_topics", "GET", "/v1/topics", "The names of all topics",
    TopicNames, tag=_TAG, target="Topics.names", is_repeatable=True,
)  # fmt: skip
TOPIC_SUMMARY: Final = Operation(
    "topic_summary", "GET", "/v1/topics/{topic}/summary", "What its files report",
    TopicSummary, tag=_TAG, target="Store.topic_summary", is_repeatable=True,
)  # fmt: skip
CREATE_TOPIC: Final = Operation(
    "create_topic", "POST", "/v1/topics", "A new topic",
    TopicState, body=NewTopic, status=201, tag=_TAG, errors=(409,),
)  # fmt: skip
ENSURE_TOPIC: Final = Operation(
    "ensure_topic", "PUT", "/v1/topics/{topic}", "The topic, created if need be",
    TopicState, body=EnsuredTopic, tag=_TAG, is_repeatable=True,
)  # fmt: skip
DESCRIBE_TOPIC: Final = Operation(
    "describe_topic", "GET", "/v1/topics/{topic}", "Its partitions and settings",
    TopicState, tag=_TAG, is_repeatable=True,
)  # fmt: skip
CONFIGURE_TOPIC: Final = Operation(
    "configure_topic", "PATCH", "/v1/topics/{topic}",
    "Change settings; they count from its next opening on",
    TopicState, body=Configure, tag=_TAG, is_repeatable=True,
)  # fmt: skip
DELETE_TOPIC: Final = Operation(
    "delete_topic", "DELETE", "/v1/topics/{topic}",
    "Remove it with its messages, groups and dead letters",
    Nothing, status=204, tag=_TAG, target="Topics.delete",
)  # fmt: skip
PRODUCE: Final = Operation(
    "produce", "POST", "/v1/topics/{topic}/messages", "Append messages, durable when answered",
    Produced, query=ProduceQuery, body=Produce, also_takes=(Raw.LINES, Raw.BYTES),
    body_bytes_max=BODY_BYTES_MAX, tag=_TAG, errors=(409,),
)  # fmt: skip
FETCH: Final = Operation(
    "fetch", "GET", "/v1/topics/{topic}/partitions/{partition}/messages",
    "Messages from an offset on", Messages, query=FetchQuery, also_gives=(Raw.LINES,),
    tag=_TAG, is_repeatable=True,
)  # fmt: skip
FETCH_RAW: Final = Operation(
    "fetch_raw", "GET", "/v1/topics/{topic}/partitions/{partition}/records",
    "Whole records as they stand in the log; Lakebed-Base-Offset, Lakebed-Next-Offset, "
    "Lakebed-Start-Offset and Lakebed-High-Watermark tell which",
    bytes, query=RawFetchQuery, also_gives=(Raw.BYTES,), tag=_TAG, is_repeatable=True,
)  # fmt: skip
OFFSET_FOR_TIME: Final = Operation(
    "offset_for_time", "GET", "/v1/topics/{topic}/partitions/{partition}/offset",
    "The first message at or behind a moment", Offset, query=OffsetQuery,
    tag=_TAG, target="Partition.offset_for_time", is_repeatable=True,
)  # fmt: skip
OFFSETS_FOR_TIME: Final = Operation(
    "offsets_for_time", "GET", "/v1/topics/{topic}/offsets",
    "The first message of every partition at or after a moment", Offsets, query=OffsetQuery,
    tag=_TAG, target="Topic.offsets_for_time", is_repeatable=True,
)  # fmt: skip
ADVANCE_TOPICS: Final = Operation(
    "advance_topics", "POST", "/v1/advance",
    "How far to read partitions within a limit so that they advance in time together: the oldest "
    "messages first", AdvancedTopics, body=AdvanceTopics, tag=_TAG, target="Topics.advance",
    is_repeatable=True,
)  # fmt: skip
TRUNCATE: Final = Operation(
    "truncate", "POST", "/v1/topics/{topic}/partitions/{partition}/truncate",
    "Remove the messages before an offset", Truncated, body=Truncate,
    tag=_TAG, target="Partition.truncate_before", is_repeatable=True,
)  # fmt: skip
SEAL_PARTITION: Final = Operation(
    "seal_partition", "POST", "/v1/topics/{topic}/partitions/{partition}/seal",
    "Begin a new segment", Sealed, tag=_TAG, target="Partition.seal",
)  # fmt: skip
SYNC_PARTITION: Final = Operation(
    "sync_partition", "POST", "/v1/topics/{topic}/partitions/{partition}/sync",
    "Make durable what was only written", Nothing, status=204,
    tag=_TAG, target="Partition.sync", is_repeatable=True,
)  # fmt: skip
TOPIC_SEGMENTS: Final = Operation(
    "topic_segments", "GET", "/v1/topics/{topic}/partitions/{partition}/segments",
    "The segments of a partition, up to its durable end", TopicSegments,
    tag=_TAG, is_repeatable=True,
)  # fmt: skip
TOPIC_SEGMENT_BYTES: Final = Operation(
    "topic_segment_bytes", "GET",
    "/v1/topics/{topic}/partitions/{partition}/segments/{base_offset}/bytes",
    "A range of a segment's file", bytes, query=SegmentBytesQuery, also_gives=(Raw.BYTES,),
    tag=_TAG, is_repeatable=True,
)  # fmt: skip
COMMIT_BATCHES: Final = Operation(
    "commit_batches", "POST", "/v1/topics/{topic}/commits",
    "Append staged batches once, recognised by application and version",
    Committed, body=BatchCommit, body_bytes_max=BODY_BYTES_MAX, tag=_TAG, is_repeatable=True,
)  # fmt: skip

OPERATIONS: Final[tuple[Operation[object], ...]] = (
    LIST_TOPICS, TOPIC_SUMMARY, CREATE_TOPIC, ENSURE_TOPIC, DESCRIBE_TOPIC, CONFIGURE_TOPIC,
    DELETE_TOPIC, PRODUCE, FETCH, FETCH_RAW, OFFSET_FOR_TIME, OFFSETS_FOR_TIME, ADVANCE_TOPICS,
    TRUNCATE, SEAL_PARTITION, SYNC_PARTITION, TOPIC_SEGMENTS, TOPIC_SEGMENT_BYTES, COMMIT_BATCHES,
)  # fmt: skip
