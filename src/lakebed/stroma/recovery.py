"""Recovers a group from its files, and repairs them so that they can be written again.

`load` only reads. It starts from the state in the snapshot and applies every good event of the
delta log of the same generation. If a crash interrupted a fold, the delta log is older than the
snapshot; then only its events after the snapshot's mark are applied, and none if it has no such
mark. If the delta log is damaged in the middle, all good events before and after the damage are
applied.

`repair` writes. Bytes of the delta log, and its length, may exist only in the page cache. So its
good part is written to a new file, which replaces the old one once it is durable. This also cuts
torn bytes, and nothing is ever appended to a file that may not be durable. A damaged delta log is
saved in the quarantine, and is replaced by a new snapshot and a new delta log. Repair may be
interrupted at any point; running it again gives the same result.

A damaged snapshot, a delta log without its snapshot or of another group, or a delta log with a
damaged header raises an error. `start_over` sets these files aside, so that the group can be used
again. If the delta log is missing although there is a snapshot, or if its header is cut short or
was never written, acks may be lost: this is reported, the group continues from its snapshot, if
there is one, and leases granted before are no longer accepted.

A snapshot without a delta log always means that the delta log was lost. A group without files is
new: if a group that never had a snapshot loses its delta log, that is not noticed.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from dataclasses import dataclass, field

from lakebed.base.errors import Corrupt, Torn
from lakebed.base.events import event
from lakebed.base.files import Disk, read_file, replace_atomically
from lakebed.base.files.quarantine import save_in_quarantine
from lakebed.kernels.checksum import blake3
from lakebed.stroma import epochs
from lakebed.stroma.config import GroupConfig
from lakebed.stroma.delta import Damage, DeltaWalk, PlacedEvent, decode_header, encode_header
from lakebed.stroma.events import Acks, Reset
from lakebed.stroma.format import EVENTS_START, FOLD_MARK, FOLD_MARK_TYPE, Ack, FoldMark, Seek
from lakebed.stroma.journal import OpenDelta
from lakebed.stroma.paths import GroupPaths
from lakebed.stroma.snapshot import Snapshot, decode_snapshot, encode_snapshot
from lakebed.stroma.snapshot_conversion import snapshot_of, state_of
from lakebed.stroma.state import GroupState

_log = logging.getLogger(__name__)

FILE_BYTES_MAX = 1 << 32
FIRST_GENERATION = 1


@dataclass
class RecoveredGroup:
    """The state of a group that was read from its files, and the repairs that the files need."""

    state: GroupState
    generation: int
    incarnation: int = 0  # 0: none was chosen yet
    snapshot_bytes: int = 0
    delta: bytes | None = None  # None if there is no delta log that counts
    delta_created_ms: int = 0
    delta_start: int = EVENTS_START  # where its events begin: its header may be longer than ours
    delta_end: int = EVENTS_START  # where its good events end
    torn_bytes: int = 0
    damages: list[Damage] = field(default_factory=list)
    event_count: int = 0
    marked_generation: int = 0  # the last generation for which a fold was started
    unknown_count: int = 0  # events of unknown types
    flagged_count: int = 0  # events with unknown flags
    is_delta_missing: bool = False  # although there is a snapshot
    must_save: bool = False  # save the delta log in the quarantine
    must_fold: bool = False  # write a new snapshot and an empty delta log
    problems: list[str] = field(default_factory=list)


def load(disk: Disk, paths: GroupPaths, config: GroupConfig, *, now_ms: int) -> RecoveredGroup:
    """Reads the files of a group; raises `DataError` if its state cannot be determined."""
    recovered = _load_snapshot(disk, paths, config, now_ms=now_ms)
    if disk.exists(paths.delta):
        _load_delta(disk, paths, recovered, now_ms=now_ms)
    elif recovered.snapshot_bytes:
        _note_missing_delta(paths, recovered)
    state = recovered.state
    state.epoch = epochs.later(state.epoch, state.epoch_reserved)
    if recovered.damages:  # a reservation of epochs may be lost
        state.epoch = epochs.leap(epochs.leap(state.epoch))
    state.epoch_reserved = state.epoch
    return recovered


def repair(disk: Disk, paths: GroupPaths, recovered: RecoveredGroup, *, now_ms: int) -> OpenDelta:
    """Repairs the files, and returns the delta log to append to."""
    paths.ensure(disk)
    if recovered.must_save:
        _save(disk, paths, paths.delta, recovered.delta or b"")
    if recovered.must_fold:
        recovered.generation = max(recovered.generation, recovered.marked_generation) + 1
        snapshot = snapshot_of(
            recovered.state,
            generation=recovered.generation,
            created_ts_ms=now_ms,
            incarnation=recovered.incarnation,
        )
        data = encode_snapshot(snapshot, paths.name)
        replace_atomically(disk, paths.snapshot, data)
        recovered.snapshot_bytes = len(data)
        recovered.delta = None
    if recovered.delta is None:
        recovered.delta, recovered.delta_created_ms = b"", now_ms
        recovered.event_count = 0
    header = encode_header(
        generation=recovered.generation,
        created_ts_ms=recovered.delta_created_ms,
        incarnation=recovered.incarnation,
    )
    data = header + recovered.delta[recovered.delta_start : recovered.delta_end]
    replace_atomically(disk, paths.delta, data)
    recovered.delta_end = len(data)
    recovered.delta = b""
    return OpenDelta(disk.open(paths.delta, writable=True), len(data))


def start_over(disk: Disk, paths: GroupPaths) -> list[str]:
    """Moves the snapshot and the delta log to the quarantine.

    The group then starts over at the log's beginning. For partition 0, this also removes the
    group's own settings. Returns sentences that describe what was saved and which acks are lost.
    """
    report = []
    for path in (paths.snapshot, paths.delta):
        if disk.exists(path):
            saved = _save(disk, paths, path, read_file(disk, path, size_max=FILE_BYTES_MAX))
            report.append(f"{path} was saved as {saved}")
    paths.remove(disk)
    report.append(
        f"{paths.name}: all acks are lost; the group starts over at the beginning of the log"
    )
    return report


def _load_snapshot(
    disk: Disk, paths: GroupPaths, config: GroupConfig, *, now_ms: int
) -> RecoveredGroup:
    if not disk.exists(paths.snapshot):
        return RecoveredGroup(GroupState(config), FIRST_GENERATION)
    data = read_file(disk, paths.snapshot, size_max=FILE_BYTES_MAX)
    snapshot: Snapshot = decode_snapshot(data, paths.name, path=paths.snapshot)
    try:
        state = state_of(snapshot, config, now_ms=now_ms)
    except Corrupt as error:
        raise Corrupt(error.problem, path=paths.snapshot, offset=error.offset) from None
    return RecoveredGroup(
        state, snapshot.generation, incarnation=snapshot.incarnation, snapshot_bytes=len(data)
    )


def _load_delta(disk: Disk, paths: GroupPaths, recovered: RecoveredGroup, *, now_ms: int) -> None:
    data = read_file(disk, paths.delta, size_max=FILE_BYTES_MAX)
    view = memoryview(data)
    try:
        header = decode_header(view, path=paths.delta)
    except Torn as error:
        # A crash does not cause this, because a delta log gets its name after its header.
        recovered.delta, recovered.torn_bytes = data, len(data)
        recovered.incarnation = 0  # its reserved epochs are lost: end all leases
        recovered.must_save = recovered.must_fold = True
        recovered.problems.append(str(error))
        return
    if header.generation > recovered.generation:
        raise Corrupt("the delta log continues a newer snapshot, which is missing",
                      path=paths.delta, expected=recovered.generation,
                      found=header.generation)  # fmt: skip
    start = header.header_len
    walk = DeltaWalk(view, start=start, path=paths.delta)
    if header.generation < recovered.generation:
        marks = [(_marked(placed), placed.offset) for placed in walk if _marked(placed)]
        starts = [offset for mark, offset in marks if mark == recovered.generation]
        if not starts:
            return  # the snapshot includes all its events
        walk = DeltaWalk(view, start=header.header_len, path=paths.delta)
        start = starts[-1]
        recovered.must_fold = True
        recovered.marked_generation = max(mark for mark, _ in marks)
    incarnations = {header.incarnation, recovered.incarnation} - {0}
    if len(incarnations) > 1:
        raise Corrupt("the delta log belongs to a different group with the same name",
                      path=paths.delta, expected=recovered.incarnation,
                      found=header.incarnation)  # fmt: skip
    recovered.incarnation = header.incarnation or recovered.incarnation
    recovered.delta, recovered.delta_created_ms = data, header.created_ts_ms
    recovered.delta_start = header.header_len
    _replay((placed for placed in walk if placed.offset >= start), recovered, now_ms)
    recovered.delta_end = walk.end
    recovered.torn_bytes = walk.torn_bytes
    recovered.event_count = walk.event_count
    recovered.unknown_count = walk.unknown_count
    recovered.flagged_count = walk.flagged_count
    recovered.damages += walk.damages
    if recovered.damages:
        recovered.must_save = recovered.must_fold = True
    recovered.problems += [
        f"{paths.delta}: at byte {damage.start}: {damage.problem}" for damage in recovered.damages
    ]


def _note_missing_delta(paths: GroupPaths, recovered: RecoveredGroup) -> None:
    recovered.is_delta_missing = recovered.must_fold = True
    recovered.incarnation = 0  # its reserved epochs are lost: end all leases
    recovered.problems.append(
        f"{paths.delta}: the delta log of generation {recovered.generation} is missing"
    )


def _marked(placed: PlacedEvent) -> int:
    """Returns the generation in a `FoldMark`, or 0 if `placed` is an event of another type."""
    if placed.event_type != FOLD_MARK_TYPE or len(placed.payload) != FOLD_MARK.size:
        return 0
    return FOLD_MARK.unpack(placed.payload).generation


def _replay(events: Iterable[PlacedEvent], recovered: RecoveredGroup, now_ms: int) -> None:
    """Applies the events in order, except for acks, which are applied together at the end.

    That is faster and gives the same state. Acks before a reset or a seek are left out, because a
    reset and a seek both decide anew which messages are settled.
    """
    state = recovered.state
    acks: list[tuple[int, int]] = []
    for placed in events:
        try:
            change = placed.event()
        except Corrupt as error:
            recovered.damages.append(Damage(placed.offset, placed.end, error.problem))
            continue
        if isinstance(change, Acks):
            acks += change.ranges
        elif isinstance(change, Ack):
            acks.append((change.offset, change.offset + 1))
        else:
            if isinstance(change, Reset | Seek):
                acks = []  # a reset or a seek forgets them
            elif isinstance(change, FoldMark):
                recovered.marked_generation = max(recovered.marked_generation, change.generation)
            state.apply(change, now_ms)
    state.settle(acks)


def saved_path(paths: GroupPaths, path: str, data: bytes) -> str:
    """Returns the path in the quarantine under which a file of the group is saved.

    The same contents always get the same path.
    """
    ending = os.path.splitext(path)[1]
    stem = blake3(paths.stem.encode()).hex()[:16]
    name = f"group-{stem}-{blake3(data).hex()[:16]}{ending}"
    return os.path.join(paths.quarantine, name)


def _save(disk: Disk, paths: GroupPaths, path: str, data: bytes) -> str:
    # Also if the copy exists already: it may not be durable yet.
    name = os.path.basename(saved_path(paths, path, data))
    target = save_in_quarantine(disk, paths.quarantine, name, data)
    event(_log, "group_file_quarantined", level=logging.ERROR, path=path, saved=target)
    return target
