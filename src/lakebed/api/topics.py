"""The calls for topics: describing them, producing, fetching, and batch commits.

Messages are sent as columns: lists with one item per message. If `keys` or `headers` is left out,
no message has any; without `timestamps_ms`, all messages get the current time.
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

BODY_BYTES_MAX = 72 * MIB  # of a body with messages: the largest append, and its encoding
MESSAGES_MAX = 1_000_000  # per produce call
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
    """A topic to open, and to create if there is none.

    Without `partitions`, an existing topic may have any number of partitions, and a new topic has
    one. `settings` apply only to a new topic.
    """

    partitions: int | None = None
    settings: Settings = {}


class Configure(Struct, frozen=True, forbid_unknown_fields=True):
    settings: Settings


class PartitionState(Struct, frozen=True):
    partition: int
    start_offset: int  # of the first message that can be read
    high_watermark: int  # after the last durable message


class TopicState(Struct, frozen=True):
    name: str
    partitions: list[PartitionState]
    settings: Settings  # all effective settings
    topic_id: str = ""  # changes if the topic is created again; empty if an older server responds


class WireProducer(Struct, frozen=True, forbid_unknown_fields=True):
    """An idempotent producer. Messages that it sends again are not appended again."""

    id: Annotated[int, Meta(ge=0, le=INT64_MAX)]
    epoch: Annotated[int, Meta(ge=0, lt=1 << 15)]
    sequence: Annotated[int, Meta(ge=0, lt=1 << 31)]  # of the first message


class Produce(Struct, frozen=True, forbid_unknown_fields=True):
    """Messages to append to `partition`; by default each to the partition of its key.

    Messages without a key go to the next partition in turn, all of a request to the same one. With
    a `producer`, `partition` is required if the topic has several partitions.
    """

    values: Annotated[list[bytes | None], Meta(max_length=MESSAGES_MAX)]  # None deletes the key
    keys: Annotated[list[bytes | None], Meta(max_length=MESSAGES_MAX)] | None = None
    headers: Annotated[list[list[Header]], Meta(max_length=MESSAGES_MAX)] | None = None
    timestamps_ms: Annotated[list[int], Meta(max_length=MESSAGES_MAX)] | None = None  # else now
    partition: int | None = None
    producer: WireProducer | None = None
    not_before_ms: Count = 0  # groups do not deliver them before this time
    ack: str | None = None  # after_fsync or after_write; by default the topic's
    timeout_ms: Count | None = None  # how long to wait for queue space; by default 0


class ProduceQuery(Struct, frozen=True):
    """Options for a request body of lines or of one message's bytes; `key` is only for the latter.
    With a JSON or MessagePack body, they are refused: its fields have these options."""

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
    wait_ms: WaitMs = 0  # how long to wait for the first message


class Messages(Struct, frozen=True):
    partition: int
    offsets: list[int]
    timestamps_ms: list[int]
    keys: list[bytes | None]
    values: list[bytes | None]
    headers: list[list[Header]]
    flags: list[int]
    next_offset: int  # where the next fetch continues
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
    ends: list[int]  # one for each range, in order


class Offsets(Struct, frozen=True):
    offsets: list[int]  # by partition


class Truncate(Struct, frozen=True, forbid_unknown_fields=True):
    before: Count


class Truncated(Struct, frozen=True):
    segments: int  # how many were removed with the messages


class Sealed(Struct, frozen=True):
    is_sealed: bool  # False if there was nothing to seal


class TopicSegments(Struct, frozen=True):
    """The segments of a partition, for planning reads. Pin their offsets before reading them."""

    segments: list[PartitionSegment]
    start_offset: int
    high_watermark: int


class SegmentBytesQuery(Struct, frozen=True):
    offset: Count = 0  # bytes
    length: Annotated[int, Meta(ge=1)] | None = None  # bytes; by default to the end
    generation: int | None = None  # if given, `NotFound` unless the segment has this generation


class StagedBatch(Struct, frozen=True, forbid_unknown_fields=True):
    """One or more Kafka record batches (version 2), in `data`, in a file or in an object."""

    data: bytes | None = None
    path: str | None = None  # absolute, on the server; only through the local socket
    bucket: str | None = None  # of an object of the store
    key: str | None = None


class StagedPartition(Struct, frozen=True, forbid_unknown_fields=True):
    partition: int
    batches: list[StagedBatch]


class BatchCommit(Struct, frozen=True, forbid_unknown_fields=True):
    """Staged batches to append. For each partition, all batches are appended or none.

    The versions of an application must increase. A partition commits each version only once: if the
    version is not larger than the last one that the partition committed, nothing is appended to it,
    and it is reported as already committed.
    """

    application: Annotated[str, Meta(min_length=1, max_length=256)]
    version: Annotated[int, Meta(ge=0, le=INT64_MAX)]
    partitions: list[StagedPartition]


class Committed(Struct, frozen=True):
    partitions: list[CommittedPartition]


LIST_TOPICS: Final = Operation(
    "list_topics", "GET", "/v1/topics", "List the names of all topics",
    TopicNames, tag=_TAG, target="Topics.names", is_repeatable=True,
)  # fmt: skip
TOPIC_SUMMARY: Final = Operation(
    "topic_summary", "GET", "/v1/topics/{topic}/summary",
    "Summarise a topic from its files, without opening it",
    TopicSummary, tag=_TAG, target="Store.topic_summary", is_repeatable=True,
)  # fmt: skip
CREATE_TOPIC: Final = Operation(
    "create_topic", "POST", "/v1/topics", "Create a topic",
    TopicState, body=NewTopic, status=201, tag=_TAG, errors=(409,),
)  # fmt: skip
ENSURE_TOPIC: Final = Operation(
    "ensure_topic", "PUT", "/v1/topics/{topic}", "Open a topic, creating it if needed",
    TopicState, body=EnsuredTopic, tag=_TAG, is_repeatable=True,
)  # fmt: skip
DESCRIBE_TOPIC: Final = Operation(
    "describe_topic", "GET", "/v1/topics/{topic}",
    "Describe the partitions and settings of a topic",
    TopicState, tag=_TAG, is_repeatable=True,
)  # fmt: skip
CONFIGURE_TOPIC: Final = Operation(
    "configure_topic", "PATCH", "/v1/topics/{topic}",
    "Change settings; they apply from the next time the topic is opened",
    TopicState, body=Configure, tag=_TAG, is_repeatable=True,
)  # fmt: skip
DELETE_TOPIC: Final = Operation(
    "delete_topic", "DELETE", "/v1/topics/{topic}",
    "Delete a topic with its messages, groups and dead letters",
    Nothing, status=204, tag=_TAG, target="Topics.delete",
)  # fmt: skip
PRODUCE: Final = Operation(
    "produce", "POST", "/v1/topics/{topic}/messages",
    "Append messages, and respond when they are acknowledged: by default, when they are durable",
    Produced, query=ProduceQuery, body=Produce, also_takes=(Raw.LINES, Raw.BYTES),
    body_bytes_max=BODY_BYTES_MAX, tag=_TAG, errors=(409,),
)  # fmt: skip
FETCH: Final = Operation(
    "fetch", "GET", "/v1/topics/{topic}/partitions/{partition}/messages",
    "Read messages from an offset on", Messages, query=FetchQuery, also_gives=(Raw.LINES,),
    tag=_TAG, is_repeatable=True,
)  # fmt: skip
FETCH_RAW: Final = Operation(
    "fetch_raw", "GET", "/v1/topics/{topic}/partitions/{partition}/records",
    "Read complete records as stored in the log; their range is in Lakebed-Base-Offset and "
    "Lakebed-Next-Offset, that of the partition in Lakebed-Start-Offset and Lakebed-High-Watermark",
    bytes, query=RawFetchQuery, also_gives=(Raw.BYTES,), tag=_TAG, is_repeatable=True,
)  # fmt: skip
OFFSET_FOR_TIME: Final = Operation(
    "offset_for_time", "GET", "/v1/topics/{topic}/partitions/{partition}/offset",
    "Find the first message at or after a time", Offset, query=OffsetQuery,
    tag=_TAG, target="Partition.offset_for_time", is_repeatable=True,
)  # fmt: skip
OFFSETS_FOR_TIME: Final = Operation(
    "offsets_for_time", "GET", "/v1/topics/{topic}/offsets",
    "Find the first message of every partition at or after a time", Offsets, query=OffsetQuery,
    tag=_TAG, target="Topic.offsets_for_time", is_repeatable=True,
)  # fmt: skip
ADVANCE_TOPICS: Final = Operation(
    "advance_topics", "POST", "/v1/advance",
    "Return how far to read each partition, within a limit, so that the oldest messages of all "
    "partitions are read first", AdvancedTopics, body=AdvanceTopics, tag=_TAG,
    target="Topics.advance", is_repeatable=True,
)  # fmt: skip
TRUNCATE: Final = Operation(
    "truncate", "POST", "/v1/topics/{topic}/partitions/{partition}/truncate",
    "Remove the messages before an offset", Truncated, body=Truncate,
    tag=_TAG, target="Partition.truncate_before", is_repeatable=True,
)  # fmt: skip
SEAL_PARTITION: Final = Operation(
    "seal_partition", "POST", "/v1/topics/{topic}/partitions/{partition}/seal",
    "Start a new segment", Sealed, tag=_TAG, target="Partition.seal",
)  # fmt: skip
SYNC_PARTITION: Final = Operation(
    "sync_partition", "POST", "/v1/topics/{topic}/partitions/{partition}/sync",
    "Sync messages that were only written", Nothing, status=204,
    tag=_TAG, target="Partition.sync", is_repeatable=True,
)  # fmt: skip
TOPIC_SEGMENTS: Final = Operation(
    "topic_segments", "GET", "/v1/topics/{topic}/partitions/{partition}/segments",
    "List the segments of a partition, up to its durable end", TopicSegments,
    tag=_TAG, is_repeatable=True,
)  # fmt: skip
TOPIC_SEGMENT_BYTES: Final = Operation(
    "topic_segment_bytes", "GET",
    "/v1/topics/{topic}/partitions/{partition}/segments/{base_offset}/bytes",
    "Read a range of a segment's file", bytes, query=SegmentBytesQuery, also_gives=(Raw.BYTES,),
    tag=_TAG, is_repeatable=True,
)  # fmt: skip
COMMIT_BATCHES: Final = Operation(
    "commit_batches", "POST", "/v1/topics/{topic}/commits",
    "Append staged batches once, identified by application and version",
    Committed, body=BatchCommit, body_bytes_max=BODY_BYTES_MAX, tag=_TAG, is_repeatable=True,
)  # fmt: skip

OPERATIONS: Final[tuple[Operation[object], ...]] = (
    LIST_TOPICS, TOPIC_SUMMARY, CREATE_TOPIC, ENSURE_TOPIC, DESCRIBE_TOPIC, CONFIGURE_TOPIC,
    DELETE_TOPIC, PRODUCE, FETCH, FETCH_RAW, OFFSET_FOR_TIME, OFFSETS_FOR_TIME, ADVANCE_TOPICS,
    TRUNCATE, SEAL_PARTITION, SYNC_PARTITION, TOPIC_SEGMENTS, TOPIC_SEGMENT_BYTES, COMMIT_BATCHES,
)  # fmt: skip
