"""What operations, faults and checks share in a run: the machine, the model, and what is known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from random import Random
from typing import Any, NamedTuple

from lakebed.base.errors import (
    Closed,
    DataError,
    InputError,
    LakebedError,
    OutcomeUnknown,
    RetryError,
)
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


class Outcome(Enum):
    OK = "done"
    REFUSED = "refused"  # as it should be, or because of a fault
    UNKNOWN = "unknown"
    NOTHING = "nothing to do"


class Answer(NamedTuple):
    outcome: Outcome
    words: str


@dataclass(frozen=True)
class Operation:
    """Something a client does: how it is drawn, and carried out and judged."""

    name: str
    weight: float
    draw: Callable[[Random], dict[str, Any]]
    run: Callable[[Context, Step], Answer]
    is_alone: bool = False  # never carried out at the same time as others


@dataclass
class Model:
    """Everything that must be in the store."""

    logs: dict[str, LogModel] = field(default_factory=dict)
    topics: dict[str, TopicModel] = field(default_factory=dict)
    groups: dict[tuple[str, str], GroupModel] = field(default_factory=dict)
    buckets: dict[str, BucketModel] = field(default_factory=dict)
    maybe_created: set[str] = field(default_factory=set)  # topics
    maybe_deleted: set[str] = field(default_factory=set)  # topics
    maybe_buckets: set[str] = field(default_factory=set)  # created, maybe
    damaged_files: dict[str, str] = field(default_factory=dict)  # path → what was done to it


class Context:
    """One run's state. Operations run one at a time in each simulated thread."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.model = Model()
        self.is_troubled = False  # the disk has failed since the store was opened
        self.has_ever_troubled = False
        self.may_have_gaps = False  # a power cut may have left what looks like damage
        self.is_poisoned = False  # something may refuse writes until it is opened again
        self.active_faults: set[str] = set()
        self.handles: dict[tuple[str, ...], object] = {}  # what was opened, in this life
        self.followers: dict[str, Any] = {}
        self.stories: list[str] = []  # what checks and crashes have to say, for the trace
        self._wire = Wire(lambda: machine.store)
        self._client: tuple[object, WireStore] | None = None
        self.parts: dict[str, Any] = {}  # what one engine's operations keep between steps

    @property
    def store(self) -> Store:
        if self.machine.store is None:
            raise NotOpen
        return self.machine.store

    def surface(self, step: Step) -> Any:
        """What the step's client talks to: the store itself, or the store over the wire."""
        lost_count = step.arguments.get("wire")
        if lost_count is None:
            return self.store
        self.store  # noqa: B018 - one must be open
        self._wire.lost_count = lost_count
        runner = self.machine.world.runner
        if self._client is None or self._client[0] is not runner:
            random = Random(f"client {self.machine.world.restart_count}")
            self._client = (runner, WireStore(self._wire, runner=runner, random=random))
        return self._client[1]

    def group_surface(self, step: Step, group: Any) -> Any:
        """The same of a group. A client keeps it, whatever becomes of the store and the group."""
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
        """A bucket that is there, or not; none is created."""
        return Bucket(self.store.lake, name)

    def bucket_surface(self, _step: Step, name: str) -> Any:
        """The same, as the step's client sees it."""
        return self.open_bucket(name)

    @property
    def is_any_damaged(self) -> bool:
        return bool(self.model.damaged_files)

    def story(self, words: str) -> None:
        self.stories.append(words)

    def refused(self, error: LakebedError, what: str, *, is_damaged: bool = False) -> Answer:
        """Judge an error that no rule of the operation explains."""
        words = f"{what}: {type(error).__name__}"
        if isinstance(error, OutcomeUnknown):
            self._explain(error, what, is_damaged=is_damaged)
            return Answer(Outcome.UNKNOWN, words)
        if isinstance(error, DataError):
            if not is_damaged and not self.is_troubled:
                raise Violation(Promise.DAMAGE_ISOLATED, f"{what} failed: {error}")
        elif not isinstance(error, InputError | RetryError | Closed):
            self._explain(error, what, is_damaged=is_damaged)
        return Answer(Outcome.REFUSED, words)

    def _explain(self, error: LakebedError, what: str, *, is_damaged: bool) -> None:
        if not is_damaged and not self.is_troubled:
            what = f"{what} failed with no fault to explain it: {type(error).__name__}: {error}"
            raise Violation(Promise.ERRORS, what)


class NotOpen(Exception):
    """No store is open: the step has nothing to work on."""


def pick(items: list[Any], number: int) -> Any:
    """One of them by number; the list is not empty."""
    return items[number % len(items)]


def arguments_of(step: Step) -> Mapping[str, Any]:
    return step.arguments
