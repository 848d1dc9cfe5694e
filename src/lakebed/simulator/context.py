"""The state that operations, faults and checks share in a run: the machine and the model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from random import Random
from typing import Any, NamedTuple

from lakebed.aof.tiers.errors import Cancelled
from lakebed.api.problems import Unreachable
from lakebed.base.errors import (
    BadConfig,
    Busy,
    Closed,
    DataError,
    LakebedError,
    NotFound,
    OutcomeUnknown,
)
from lakebed.seglake.errors import ConditionConflict
from lakebed.simulator.clients import Wire, WireStore
from lakebed.simulator.machine import Machine
from lakebed.simulator.model.groups import GroupModel
from lakebed.simulator.model.logs import LogModel
from lakebed.simulator.model.objects import BucketModel
from lakebed.simulator.model.topics import TopicModel
from lakebed.simulator.plan import Step
from lakebed.simulator.violation import Promise, Violation
from lakebed.store.bucket import Bucket
from lakebed.store.store import Store

_ALWAYS_ALLOWED = (Busy, Closed, NotFound, Unreachable, Cancelled, ConditionConflict)
"""Errors that can occur at any time: because of another client, retention, or a log, topic or
connection that was closed.
"""


class Outcome(Enum):
    OK = "done"
    REFUSED = "refused"  # correctly, or because of a fault
    UNKNOWN = "unknown"
    NOTHING = "nothing to do"


class Answer(NamedTuple):
    outcome: Outcome
    words: str


@dataclass(frozen=True)
class Operation:
    """A kind of call to the store: how to draw its arguments, and how to execute and check it."""

    name: str
    weight: float
    draw: Callable[[Random], dict[str, Any]]
    run: Callable[[Context, Step], Answer]
    is_alone: bool = False  # never executed at the same time as others


@dataclass
class Model:
    """The expected contents of the store, by engine."""

    logs: dict[str, LogModel] = field(default_factory=dict)
    topics: dict[str, TopicModel] = field(default_factory=dict)
    groups: dict[tuple[str, str], GroupModel] = field(default_factory=dict)
    buckets: dict[str, BucketModel] = field(default_factory=dict)
    maybe_created: set[str] = field(default_factory=set)  # topics whose creation is in doubt
    maybe_deleted: set[str] = field(default_factory=set)  # topics whose deletion is in doubt
    maybe_buckets: set[str] = field(default_factory=set)  # buckets whose creation is in doubt
    damaged_files: dict[str, str] = field(default_factory=dict)  # path → what was done to it


class Context:
    """The state of one run. Each simulated thread executes one operation at a time."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.model = Model()
        self.is_troubled = False  # a disk fault since the store was opened may make calls fail
        self.has_ever_troubled = False
        self.may_have_gaps = False  # a power cut may have left gaps that look like damage
        self.is_poisoned = False  # some files may refuse writes until they are opened again
        self.active_faults: set[str] = set()
        self.handles: dict[
            tuple[str, ...], object
        ] = {}  # objects opened since the store was opened
        self.followers: dict[str, Any] = {}
        self.stories: list[str] = []  # trace lines of checks and crashes
        self._wire = Wire(lambda: machine.store)
        self._client: tuple[object, WireStore] | None = None
        self.parts: dict[str, Any] = {}  # state that operations keep between steps

    @property
    def store(self) -> Store:
        if self.machine.store is None:
            raise NotOpen
        return self.machine.store

    def surface(self, step: Step) -> Any:
        """Returns what the step's client calls: the store itself, or a `WireStore`, which calls it
        over the HTTP API.
        """
        lost_count = step.arguments.get("wire")
        if lost_count is None:
            return self.store
        self.store  # noqa: B018 - raises if no store is open
        self._wire.lost_count = lost_count
        runner = self.machine.world.runner
        if self._client is None or self._client[0] is not runner:
            random = Random(f"client {self.machine.world.restart_count}")
            self._client = (runner, WireStore(self._wire, runner=runner, random=random))
        return self._client[1]

    def group_surface(self, step: Step, group: Any) -> Any:
        """Returns the group as the step's client sees it: `group` itself, or a remote group.

        A client keeps using its remote group until a crash, even after the store was reopened or
        the group was deleted.
        """
        if step.arguments.get("wire") is None:
            return group
        store = self.surface(step)
        key = (group.topic.name, group.name)
        kept: dict[Any, Any] = self.parts.setdefault("remote_groups", {})
        if kept.get("store") is not store:
            kept.clear()
            kept["store"] = store
        if key not in kept:
            lost_count, self._wire.lost_count = self._wire.lost_count, 0
            kept[key] = store.topics.open(group.topic.name).group(group.name)
            self._wire.lost_count = lost_count
        return kept[key]

    def open_bucket(self, name: str) -> Bucket:
        """Returns a handle on the bucket, which need not exist. Does not create the bucket."""
        return Bucket(self.store.lake, name)

    def bucket_surface(self, _step: Step, name: str) -> Any:
        """Returns what the step's client calls: always the bucket itself, never a remote bucket."""
        return self.open_bucket(name)

    @property
    def only_reads_fail(self) -> bool:
        """Whether writes work: no disk fault makes writes fail now, and no file refuses writes
        because of an earlier fault.
        """
        return not self.is_poisoned and self.active_faults <= {"disk.unreadable", "disk.slow"}

    @property
    def is_any_damaged(self) -> bool:
        return bool(self.model.damaged_files)

    def story(self, words: str) -> None:
        self.stories.append(words)

    def refused(
        self,
        error: LakebedError,
        what: str,
        *,
        is_damaged: bool = False,
        expected: tuple[type[LakebedError], ...] = (),
    ) -> Answer:
        """Returns the answer for a failed call. Raises a `Violation` if nothing explains the error.

        Damaged data (`is_damaged`) and faults of the disk explain any error. A `DataError` or an
        `OutcomeUnknown` always needs such an explanation. Other errors need none if they can occur
        at any time (`_ALWAYS_ALLOWED`), if their class is in `expected`, or if they are `BadConfig`
        and the manifest log is off.
        """
        words = f"{what}: {type(error).__name__}"
        if isinstance(error, OutcomeUnknown):
            self._explain(error, what, is_damaged=is_damaged)
            return Answer(Outcome.UNKNOWN, words)
        if isinstance(error, DataError):
            if not is_damaged and not self.is_troubled:
                raise Violation(
                    Promise.DAMAGE_ISOLATED, f"{what} failed on undamaged data: {error}"
                )
        elif not isinstance(error, (*_ALWAYS_ALLOWED, *expected)):
            is_config = isinstance(error, BadConfig) and not self.machine.settings["manifest"]
            if not is_config:
                self._explain(error, what, is_damaged=is_damaged)
        return Answer(Outcome.REFUSED, words)

    def _explain(self, error: LakebedError, what: str, *, is_damaged: bool) -> None:
        if not is_damaged and not self.is_troubled:
            what = f"{what} failed, although no fault explains it: {type(error).__name__}: {error}"
            raise Violation(Promise.ERRORS, what)


class NotOpen(Exception):
    """A step needs an open store, but none is open."""


def pick(items: list[Any], number: int) -> Any:
    """Returns the item at index `number` modulo the length of the list, which must not be empty."""
    return items[number % len(items)]


def arguments_of(step: Step) -> Mapping[str, Any]:
    return step.arguments
