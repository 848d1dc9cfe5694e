"""The calls for consumer groups: leasing, acknowledging and returning messages, and inspecting
groups."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, Struct

from lakebed.api.operation import Nothing, Operation, Raw
from lakebed.api.topics import FETCH_BYTES_MAX, Count, Header, MaxBytes, Settings, WaitMs
from lakebed.base.units import MIB
from lakebed.store.dead_letters import LETTERS_MAX, DeadLetters
from lakebed.store.leased_message import Held
from lakebed.stroma.description import GroupPartition
from lakebed.stroma.group import HeldRange

_TAG = "groups"

LeaseMs = Annotated[int, Meta(ge=1, le=366 * 24 * 3600 * 1000)]
LEASED_MAX = 100_000  # per call
REDRIVEN_MAX = 1_000_000  # per call
MaxMessages = Annotated[int, Meta(ge=1, le=LEASED_MAX)]


class GroupNames(Struct, frozen=True):
    groups: list[str]


class OpenGroup(Struct, frozen=True, forbid_unknown_fields=True):
    """A group to open, and to create if there is none.

    `settings` replace the group's stored settings; a setting that they do not name has the store's
    default. They take effect when the group is next opened: by this call, if the group is not open.
    Without `settings`, the stored settings stay as they are.
    """

    settings: Settings | None = None


class GroupState(Struct, frozen=True):
    topic: str
    group: str
    partitions: dict[int, GroupPartition]


class Lag(Struct, frozen=True):
    partitions: dict[int, int]  # messages neither acked nor dead-lettered, by partition


class LeaseRequest(Struct, frozen=True, forbid_unknown_fields=True):
    max_messages: MaxMessages = 100
    max_bytes: MaxBytes = FETCH_BYTES_MAX  # the first message is returned whatever its size
    lease_ms: LeaseMs | None = None
    wait_ms: WaitMs = 0  # how long to wait for the first message


class Lease(Struct, frozen=True):
    """Messages of one partition that were leased together, as columns."""

    partition: int
    epoch: int
    incarnation: str
    deadline_ms: int
    offsets: list[int]
    timestamps_ms: list[int]
    keys: list[bytes | None]
    values: list[bytes | None]
    headers: list[list[Header]]
    delivery_counts: list[int]


class Leases(Struct, frozen=True):
    leases: list[Lease]


class Ack(Struct, frozen=True, forbid_unknown_fields=True):
    held: list[Held]


class Nack(Struct, frozen=True, forbid_unknown_fields=True):
    held: list[Held]
    delay_ms: Count = 0
    is_delivery: bool = True  # false: not processed; delivered again now, and not counted


class Extend(Struct, frozen=True, forbid_unknown_fields=True):
    held: list[Held]
    lease_ms: LeaseMs | None = None


class Extended(Struct, frozen=True):
    deadlines_ms: list[int]  # in the order of `held`


class PeekQuery(Struct, frozen=True):
    max_messages: MaxMessages = 10
    max_bytes: MaxBytes = FETCH_BYTES_MAX  # the first message is returned whatever its size


class Peeked(Struct, frozen=True):
    """The messages that would be leased next, as columns. They are not leased."""

    partitions: list[int]
    offsets: list[int]
    timestamps_ms: list[int]
    keys: list[bytes | None]
    values: list[bytes | None]
    headers: list[list[Header]]


class LeasesQuery(Struct, frozen=True):
    max_leases: MaxMessages = 1000
    partition: Count | None = None  # by default all
    offset: Count = 0  # the first offset in each partition


class HeldLeases(Struct, frozen=True):
    leases: list[HeldRange]


class Release(Struct, frozen=True, forbid_unknown_fields=True):
    partition: Count | None = None  # by default all
    offset: Count | None = None  # of one message; by default all messages of the partition


class Released(Struct, frozen=True):
    messages: int


class Reset(Struct, frozen=True, forbid_unknown_fields=True):
    partition: int | None = None  # by default all


class SeekTo(Struct, frozen=True, forbid_unknown_fields=True):
    """The new position of a group: an `offset` of a `partition`, a time, or the end."""

    partition: int | None = None
    offset: Count | None = None
    timestamp_ms: int | None = None
    to_end: bool = False


class DeadLettersQuery(Struct, frozen=True):
    """A page of dead letters, which begins at `partition` and `offset` of the dead-letter topic.

    For the next page, pass the `next_partition` and `next_offset` of the previous response.
    """

    max_messages: MaxMessages = LETTERS_MAX
    partition: Count = 0
    offset: Count = 0


class Redrive(Struct, frozen=True, forbid_unknown_fields=True):
    max_messages: Annotated[int, Meta(ge=1, le=REDRIVEN_MAX)] = REDRIVEN_MAX


class Redriven(Struct, frozen=True):
    messages: int


_GROUP = "/v1/topics/{topic}/groups/{group}"

LIST_GROUPS: Final = Operation(
    "list_groups", "GET", "/v1/topics/{topic}/groups", "List the names of a topic's groups",
    GroupNames, tag=_TAG, target="Topic.groups", is_repeatable=True,
)  # fmt: skip
OPEN_GROUP: Final = Operation(
    "open_group", "PUT", _GROUP, "Open a group, creating it if needed",
    GroupState, body=OpenGroup, tag=_TAG, is_repeatable=True,
)  # fmt: skip
DESCRIBE_GROUP: Final = Operation(
    "describe_group", "GET", _GROUP, "Describe the state of a group, by partition",
    GroupState, tag=_TAG, is_repeatable=True,
)  # fmt: skip
DELETE_GROUP: Final = Operation(
    "delete_group", "DELETE", _GROUP, "Delete a group and its acks",
    Nothing, status=204, tag=_TAG, target="Topic.delete_group",
)  # fmt: skip
LAG: Final = Operation(
    "lag", "GET", _GROUP + "/lag", "Count the messages that are neither acked nor dead-lettered",
    Lag, tag=_TAG, target="Group.lag", is_repeatable=True,
)  # fmt: skip
LEASE: Final = Operation(
    "lease", "POST", _GROUP + "/lease", "Lease messages, waiting up to wait_ms for the first one",
    Leases, body=LeaseRequest, tag=_TAG, is_repeatable=True, also_gives=(Raw.LINES,),
)  # fmt: skip
ACK: Final = Operation(
    "ack", "POST", _GROUP + "/ack", "Settle messages: they are not delivered again",
    Nothing, body=Ack, status=204, tag=_TAG, target="Group.ack_held", errors=(409,),
    is_repeatable=True, body_bytes_max=16 * MIB,
)  # fmt: skip
NACK: Final = Operation(
    "nack", "POST", _GROUP + "/nack", "Return messages for delivery, at once or after a delay",
    Nothing, body=Nack, status=204, tag=_TAG, target="Group.nack_held", errors=(409,),
    body_bytes_max=16 * MIB,
)  # fmt: skip
EXTEND: Final = Operation(
    "extend", "POST", _GROUP + "/extend", "Extend leases",
    Extended, body=Extend, tag=_TAG, target="Group.extend_held", errors=(409,),
    is_repeatable=True, body_bytes_max=16 * MIB,
)  # fmt: skip
PEEK: Final = Operation(
    "peek", "GET", _GROUP + "/peek", "Show the messages that would be leased next",
    Peeked, query=PeekQuery, tag=_TAG, is_repeatable=True,
)  # fmt: skip
LIST_LEASES: Final = Operation(
    "list_leases", "GET", _GROUP + "/leases",
    "List current leases with deadlines and delivery counts",
    HeldLeases, query=LeasesQuery, tag=_TAG, target="Group.leases", is_repeatable=True,
)  # fmt: skip
RELEASE: Final = Operation(
    "release", "POST", _GROUP + "/release", "End leases",
    Released, body=Release, tag=_TAG, target="Group.release",
)  # fmt: skip
RESET: Final = Operation(
    "reset", "POST", _GROUP + "/reset", "Start over from the oldest message",
    Nothing, body=Reset, status=204, tag=_TAG, target="Group.reset", is_repeatable=True,
)  # fmt: skip
SEEK: Final = Operation(
    "seek", "POST", _GROUP + "/seek", "Settle messages before a position, deliver the rest again",
    Nothing, body=SeekTo, status=204, tag=_TAG, target="Group.seek", is_repeatable=True,
)  # fmt: skip
DEAD_LETTERS: Final = Operation(
    "dead_letters", "GET", _GROUP + "/dead-letters", "List messages that were delivered too often",
    DeadLetters, query=DeadLettersQuery, tag=_TAG, target="Group.dead_letter_page",
    is_repeatable=True,
)  # fmt: skip
REDRIVE: Final = Operation(
    "redrive", "POST", _GROUP + "/redrive", "Send dead letters back to their partitions",
    Redriven, body=Redrive, tag=_TAG, target="Group.redrive",
)  # fmt: skip

OPERATIONS: Final[tuple[Operation[object], ...]] = (
    LIST_GROUPS, OPEN_GROUP, DESCRIBE_GROUP, DELETE_GROUP, LAG, LEASE, ACK, NACK, EXTEND, PEEK,
    LIST_LEASES, RELEASE, RESET, SEEK, DEAD_LETTERS, REDRIVE,
)  # fmt: skip
