"""The damage ledger, `damage.json`: lists the data that a store has lost.

    {"format": "lakebed damage", "version": 1, "blake3": "64 hex digits",
     "next_id": 2, "forgotten_count": 0, "records": [{"id": 1, "engine": "topics", …}]}

Repairing a file removes the evidence of the damage, so an engine first records the loss durably and
then repairs the file. Only the process that has the store open for writing changes `damage.json`. A
loss that is already recorded is not recorded again. An operator can acknowledge a record; it stays
in the ledger, marked with the time. The checksum `blake3` covers `next_id`, `forgotten_count` and
`records`, as JSON with sorted keys and without spaces.

At most `RECORDS_MAX` records are kept. When the ledger is full, a new record replaces the oldest
acknowledged one. If none is acknowledged, a new loss is not recorded but only counted in
`forgotten_count`, which is reset when all records are acknowledged.

If the ledger file is damaged or too large, or a read of its bytes fails, it is moved to the
quarantine, and a new ledger records that. If there is no ledger file but an earlier one in the
quarantine, the store has lost its ledger, as after a crash between these two steps.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from blake3 import blake3

from lakebed.base.clock import NS_PER_MS
from lakebed.base.errors import Corrupt, DiskError, LakebedError, NotFound, UnknownVersion
from lakebed.base.events import event
from lakebed.base.files import Disk, PathLike, make_folders, read_file, replace_atomically
from lakebed.base.runner import Runner
from lakebed.base.units import MIB

FILE_NAME = "damage.json"
TOPICS, GROUPS, LOGS, OBJECTS, STORE = "topics", "groups", "logs", "objects", "store"  # engines
QUARANTINE_NAME = "quarantine"
FORMAT = "lakebed damage"
VERSION = 1
RECORDS_MAX = 1000

_TEXT_MAX = 1000  # characters of a problem
_BYTES_MAX = 16 * MIB
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Loss:
    """Lost data: which engine and object it belongs to, where it was, and why it was lost."""

    engine: str  # TOPICS, GROUPS, LOGS, OBJECTS or STORE
    name: str  # the topic, `topic/group`, log or segment; for STORE, the file
    problem: str
    partition: int | None = None
    path: str | None = None  # the damaged file or folder; in the ledger, relative to the root
    start: int | None = None  # the damaged bytes `[start, end)` of the file
    end: int | None = None
    first_offset: int | None = None  # at most the messages `[first_offset, next_offset)` are lost
    next_offset: int | None = None
    saved: tuple[str, ...] = ()  # files with copies of the bad bytes, with paths like `path`


@dataclass(frozen=True, kw_only=True)
class DamageRecord(Loss):
    """A loss as recorded in the damage ledger: with an id, the time when it was found, and the time
    when an operator acknowledged it.
    """

    id: int
    found_ms: int  # since 1970
    acknowledged_ms: int | None = None  # None if it is not acknowledged

    def __str__(self) -> str:
        what = f"{self.engine} {self.name}"
        if self.partition is not None:
            what += f", partition {self.partition}"
        if self.path is not None:
            place = "" if self.start is None else f" at byte {self.start}"
            what += f": {self.path}{place}"
        lost = ""
        if self.first_offset is not None and self.next_offset is not None:
            last = self.next_offset - 1
            which = f"offset {last}" if self.first_offset == last else (
                f"offsets {self.first_offset} to {last}"
            )  # fmt: skip
            lost = f"; {which} lost"
        saved = f"; saved as {', '.join(self.saved)}" if self.saved else ""
        return f"{what}: {self.problem}{lost}{saved}"


@dataclass(frozen=True)
class Ledger:
    """The contents of the damage ledger."""

    next_id: int = 1
    forgotten_count: int = 0  # losses that were not recorded because the ledger was full
    records: tuple[DamageRecord, ...] = field(default=())  # oldest first

    @property
    def unacknowledged(self) -> tuple[DamageRecord, ...]:
        return tuple(record for record in self.records if record.acknowledged_ms is None)

    def lost_offsets(self, topic: str, partition: int) -> tuple[DamageRecord, ...]:
        """Returns the unacknowledged damage records about lost messages of a partition, sorted by
        first offset.
        """
        records = [
            record
            for record in self.unacknowledged
            if (record.engine, record.name, record.partition) == (TOPICS, topic, partition)
            and record.first_offset is not None
        ]
        return tuple(sorted(records, key=lambda record: record.first_offset or 0))


def load_ledger(disk: Disk, root: PathLike) -> Ledger:
    """Reads the damage ledger; a missing file counts as an empty ledger. Raises `Corrupt` if the
    file is damaged or too large, if a read of its bytes fails, or if it is missing and the
    quarantine has an earlier one. Raises `UnknownVersion` if a newer program wrote it, and
    `DiskError` if it cannot be opened.
    """
    path = os.path.join(os.fspath(root), FILE_NAME)
    try:
        data = _read(disk, path)
    except NotFound:
        if _quarantined(disk, root):
            raise Corrupt(
                "the record of damage is missing: it was damaged and moved to the quarantine",
                path=path,
            ) from None
        return Ledger()
    return decode_ledger(data, path=path)


def encode_ledger(ledger: Ledger) -> bytes:
    content = asdict(ledger)
    head = {"format": FORMAT, "version": VERSION, "blake3": _checksum(content)}
    return json.dumps({**head, **content}, indent=1).encode() + b"\n"


def decode_ledger(data: bytes, *, path: str) -> Ledger:
    try:
        document = json.loads(data)
        if document["format"] != FORMAT:
            raise ValueError
        version = document["version"]
        if isinstance(version, int) and version > VERSION:
            raise UnknownVersion(
                "the record of damage was written by a newer version of Lakebed: use that version "
                "or a newer one",
                path=path,
                expected=VERSION,
                found=version,
            )
        content = {name: document[name] for name in ("next_id", "forgotten_count", "records")}
        if version != VERSION or document["blake3"] != _checksum(content):
            raise ValueError
        records = tuple(
            DamageRecord(**{**record, "saved": tuple(record["saved"])})
            for record in content["records"]
        )
        return Ledger(content["next_id"], content["forgotten_count"], records)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise Corrupt("not a valid record of damage", path=path) from None


class RecordedDamage:
    """The damage ledger of a store that is open read-only. Thread-safe."""

    def __init__(self, disk: Disk, root: PathLike) -> None:
        self._disk = disk
        self._root = root

    def list(self) -> list[DamageRecord]:
        """Returns all damage records, acknowledged or not, oldest first."""
        return [*self.ledger().records]

    def ledger(self) -> Ledger:
        """Reads the damage ledger; see `load_ledger`."""
        return load_ledger(self._disk, self._root)


class LedgerCache:
    """A damage ledger for frequent lookups: each reads the file, but decodes it only if it has
    changed.
    """

    def __init__(self, disk: Disk, root: PathLike) -> None:
        self._disk = disk
        self._path = os.path.join(os.fspath(root), FILE_NAME)
        self._known = (b"", Ledger())

    def lost_offsets(self, topic: str, partition: int) -> tuple[DamageRecord, ...]:
        """Returns the unacknowledged damage records about lost messages of a partition, sorted by
        first offset. Returns an empty tuple if the ledger file is missing or damaged, or if a read
        of its bytes fails; `verify` reports the damage. Raises `UnknownVersion` and `DiskError` as
        `load_ledger` does.
        """
        return self._ledger().lost_offsets(topic, partition)

    def _ledger(self) -> Ledger:
        try:
            data = _read(self._disk, self._path)
            known, ledger = self._known
            if data != known:
                ledger = decode_ledger(data, path=self._path)
                self._known = (data, ledger)
            return ledger
        except (NotFound, Corrupt):
            return Ledger()


class DamageLedger:
    """The damage ledger of a store that is open for writing. Thread-safe."""

    def __init__(self, disk: Disk, root: PathLike, *, runner: Runner) -> None:
        """Reads the file. Raises `UnknownVersion` if a newer program wrote it, and `DiskError` if
        it cannot be opened.

        Where `load_ledger` raises `Corrupt`, moves the file, if there is one, to the quarantine,
        and writes a new ledger with a record of this damage. If that fails, the next write of the
        ledger tries it again.
        """
        self.root = os.fspath(root)
        self._disk = disk
        self._runner = runner
        self._mutex = runner.mutex()
        self._ledger, self._is_damaged = Ledger(), False  # guarded by _mutex
        try:
            self._ledger = load_ledger(disk, root)
            self._next_id_on_disk = self._ledger.next_id  # guarded by _mutex
        except Corrupt as error:
            _log.error("%s; starting a new one; the damaged file is kept in the quarantine", error)
            self._is_damaged = True
            self._next_id_on_disk = self._ledger.next_id
            loss = Loss(engine=STORE, name=FILE_NAME, problem="the record of damage was damaged")
            self._ledger = _added(self._ledger, loss, now_ms=self._now_ms())
            with contextlib.suppress(LakebedError):  # the next write includes this record
                self._replace(self._ledger)

    def ledger(self) -> Ledger:
        with self._mutex:
            return self._ledger

    def list(self) -> list[DamageRecord]:
        """Returns all damage records, acknowledged or not, oldest first."""
        return [*self.ledger().records]

    def record(self, *losses: Loss) -> None:
        """Records the losses durably, except those that are recorded already. If the ledger is
        full of unacknowledged records, a loss is only counted.

        Paths below the root are stored relative to it.
        """
        with self._mutex:
            ledger = self._ledger
            known = {_identity(record) for record in ledger.records}
            for loss in map(self._below_root, losses):
                if _identity(loss) in known:
                    continue
                known.add(_identity(loss))
                ledger = _added(ledger, loss, now_ms=self._now_ms())
            if ledger is not self._ledger:
                self._replace(ledger)

    def acknowledge(self, record_id: int) -> DamageRecord:
        """Marks a damage record as acknowledged: `verify` then no longer reports the record, and
        readers of a topic skip its lost messages. Returns the record when the change is durable.
        Raises `NotFound` if there is no record with that id.
        """
        with self._mutex:
            records = self._ledger.records
            record = next((each for each in records if each.id == record_id), None)
            if record is None:
                raise NotFound(
                    f"there is no damage record {record_id}; `lakebed damage list` shows all "
                    "records"
                )
            if record.acknowledged_ms is not None:
                return record
            acknowledged = replace(record, acknowledged_ms=self._now_ms())
            records = tuple(acknowledged if each is record else each for each in records)
            changed = replace(self._ledger, records=records)
            if not changed.unacknowledged:  # the last acknowledgement also covers counted losses
                changed = replace(changed, forgotten_count=0)
            self._replace(changed)
            return acknowledged

    def forget(self, engine: str, name: str) -> None:
        """Drops the records of a deleted object, such as a topic, so that a new object of the same
        name starts without losses.
        """
        with self._mutex:
            kept = tuple(
                record
                for record in self._ledger.records
                if (record.engine, record.name) != (engine, name)
            )
            if len(kept) < len(self._ledger.records):
                self._replace(replace(self._ledger, records=kept))

    @property
    def unacknowledged_count(self) -> int:
        ledger = self.ledger()
        return len(ledger.unacknowledged) + ledger.forgotten_count

    @property
    def _path(self) -> str:
        return os.path.join(self.root, FILE_NAME)

    def _replace(self, ledger: Ledger) -> None:
        """Writes the new contents durably and logs new records. Moves a damaged earlier file to the
        quarantine first. The caller must hold the mutex.
        """
        if self._is_damaged:
            _move_to_quarantine(self._disk, self.root)
            self._is_damaged = False
        replace_atomically(self._disk, self._path, encode_ledger(ledger))
        next_id, self._next_id_on_disk, self._ledger = self._next_id_on_disk, ledger.next_id, ledger
        for record in (each for each in ledger.records if each.id >= next_id):
            event(_log, "damage_recorded", level=logging.ERROR, id=record.id, damage=str(record))

    def _below_root(self, loss: Loss) -> Loss:
        path = None if loss.path is None else self._relative(loss.path)
        return replace(
            loss,
            path=path,
            problem=loss.problem[:_TEXT_MAX],
            saved=tuple(map(self._relative, loss.saved)),
        )

    def _relative(self, path: str) -> str:
        prefix = os.path.join(self.root, "")
        return path.removeprefix(prefix)

    def _now_ms(self) -> int:
        return self._runner.clock.wall_ns() // NS_PER_MS


def _read(disk: Disk, path: str) -> bytes:
    """Returns the bytes of the ledger file. Raises `Corrupt` if it is too large or a read fails."""
    try:
        return read_file(disk, path, size_max=_BYTES_MAX)
    except DiskError as error:
        if error.operation != "read":
            raise
        raise Corrupt("the file cannot be read", path=path) from error


def _quarantined(disk: Disk, root: PathLike) -> list[str]:
    """Returns the names of the ledger files in the quarantine."""
    try:
        names = disk.names(os.path.join(os.fspath(root), QUARANTINE_NAME))
    except NotFound:
        return []
    return [name for name in names if name.startswith(f"{FILE_NAME}-")]


def _move_to_quarantine(disk: Disk, root: str) -> None:
    """Moves the ledger file, if it still exists, durably to the quarantine under an unused name."""
    folder = os.path.join(root, QUARANTINE_NAME)
    make_folders(disk, folder)
    used = _quarantined(disk, root)
    names = (f"{FILE_NAME}-{number}.bin" for number in itertools.count(1))
    target = os.path.join(folder, next(name for name in names if name not in used))
    with contextlib.suppress(NotFound):  # an earlier attempt has moved it
        disk.rename(os.path.join(root, FILE_NAME), target)
    disk.sync_folder(folder)
    disk.sync_folder(root)


def _added(ledger: Ledger, loss: Loss, *, now_ms: int) -> Ledger:
    records: Sequence[DamageRecord] = ledger.records
    if len(records) >= RECORDS_MAX:
        oldest = next((record for record in records if record.acknowledged_ms is not None), None)
        if oldest is None:
            return replace(ledger, forgotten_count=ledger.forgotten_count + 1)
        records = [record for record in records if record is not oldest]
    facts: dict[str, Any] = {name: getattr(loss, name) for name in loss.__dataclass_fields__}
    record = DamageRecord(**facts, id=ledger.next_id, found_ms=now_ms)
    return replace(ledger, next_id=ledger.next_id + 1, records=(*records, record))


def _identity(loss: Loss) -> tuple[object, ...]:
    """Returns a key that is equal for two reports of the same loss. It does not depend on where the
    bad bytes end or were saved, nor on the problem if the lost offsets are known.
    """
    return (
        loss.engine,
        loss.name,
        loss.partition,
        loss.path,
        loss.start,
        loss.first_offset,
        loss.next_offset,
        loss.problem if loss.first_offset is None else "",
    )


def _checksum(content: dict[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return blake3(text.encode()).hexdigest()
