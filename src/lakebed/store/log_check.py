"""Verifying all of a log: the segments on disk, their warm files, the archive, and the objects if
asked for.

It is done in three steps, which may be apart: `plan_log` lists what there is to check, a `LogCheck`
checks one piece after the other, `join_log` makes one report of all. A segment that went elsewhere
in between is looked for there; one that is gone for good is not counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from lakebed.aof.manifest.state import Residency
from lakebed.aof.tiers.errors import Tier2Error
from lakebed.base.progress import Progress
from lakebed.store.logs import require_log
from lakebed.store.read_only import ReadOnlyStore
from lakebed.store.residency import recorded_states
from lakebed.store.segment_continuity import Outline, neighbour_problems, outline_of
from lakebed.store.tier_verification import Copies, CopyPiece
from lakebed.store.verification import Problem, SegmentPiece, Verification, check_segment

_LOOKS_MAX = 3


@dataclass
class LogReport:
    """What was found."""

    segments: int = 0  # that were read, wherever they are
    records: int = 0  # in these
    warm_files: int = 0
    objects: int = 0
    unread: list[int] = field(default_factory=list)  # segments that only Tier 2 has
    problems: list[Problem] = field(default_factory=list)
    unreached: Tier2Error | None = None  # why not all objects were read
    archived: int = 0  # segments in the archive, which are counted nowhere else


class LogPiece(NamedTuple):
    """One segment on disk, or one copy."""

    log: str
    what: SegmentPiece | CopyPiece
    tier2: bool = False  # whether it may be read from there, if it went there meanwhile


class LogPlan(NamedTuple):
    """What there is to check, and what was found before anything was read."""

    log: str
    problems: tuple[Problem, ...]
    elsewhere: tuple[int, ...]  # segments that are in colder tiers alone
    pieces: tuple[LogPiece, ...]  # the archive, the segments on disk, the warm files, the objects


class LogFinding(NamedTuple):
    """What a report needs of one piece."""

    segment_id: int
    tier: int
    records: int | None  # None if it is not whole, or was not read
    problems: tuple[Problem, ...] = ()
    unreached: Tier2Error | None = None
    is_unread: bool = False  # Tier 2 alone has it by now, and is not to be read
    outline: Outline | None = None  # of a segment in Tier 0
    is_archived: bool = False

    @property
    def is_reported(self) -> bool:
        """Whether there is anything to be said of it: not if it was gone."""
        return self.records is not None or bool(self.problems) or self.unreached is not None


def check_log(store: ReadOnlyStore, name: str, *, tier2: bool, progress: Progress) -> LogReport:
    """Everything there is to find. `progress` is told how many of how many copies were read."""
    plan = plan_log(store, name, tier2=tier2)
    check = LogCheck(store, name)
    found = []
    for count, piece in enumerate(plan.pieces, start=1):
        found.append(check.run(piece))
        progress(count, len(plan.pieces))
    return join_log(plan, [one for one in found if one is not None])


def plan_log(store: ReadOnlyStore, name: str, *, tier2: bool) -> LogPlan:
    """`NotFound` if there is no such log."""
    paths = require_log(store.disk, store.root, name)
    verification = Verification(store.disk, paths)
    copies = Copies(store, paths, verification.states)
    pieces: list[SegmentPiece | CopyPiece] = [*verification.archived(), *verification.pieces()]
    pieces += copies.pieces(1)
    pieces += copies.pieces(2) if tier2 else []
    return LogPlan(
        log=name,
        problems=tuple(verification.problems),
        elsewhere=tuple(state.segment_id for state in verification.elsewhere()),
        pieces=tuple(LogPiece(name, piece, tier2) for piece in pieces),
    )


class LogCheck:
    """Of pieces of one log. A Tier 2 that did not answer once is not asked again."""

    def __init__(self, store: ReadOnlyStore, name: str) -> None:
        self._disk = store.disk
        self._paths = require_log(store.disk, store.root, name)
        self._copies = Copies(store, self._paths, {})
        self._unreached: Tier2Error | None = None

    def run(self, piece: LogPiece) -> LogFinding | None:
        """None if it was removed since it was planned."""
        what = piece.what
        if isinstance(what, CopyPiece):
            return self._copy(what) or self._moved(what.state.segment_id, piece)
        if what.is_archived:
            return self._segment(what)
        for _ in range(_LOOKS_MAX):
            found = self._segment(what)
            if found is not None:
                return found
            moved = self._moved(what.name.segment_id, piece)
            if moved is not None:
                return moved._replace(tier=0)  # it is the segment itself, wherever it is
        return None

    def _segment(self, piece: SegmentPiece) -> LogFinding | None:
        """None if its file is not there."""
        found = check_segment(self._disk, piece)
        records = None
        if found.inspection is not None:
            records = sum(good.record_count for good in found.inspection.good_ranges)
        finding = LogFinding(
            piece.name.segment_id,
            0,
            records,
            found.problems,
            outline=None if piece.is_archived else outline_of(found),
            is_archived=piece.is_archived,
        )
        return finding if finding.is_reported else None

    def _copy(self, piece: CopyPiece) -> LogFinding | None:
        """None if it was let go of."""
        segment_id = piece.state.segment_id
        if piece.tier == 2 and self._unreached is not None:
            return LogFinding(segment_id, 2, None, unreached=self._unreached)
        try:
            copy = self._copies.verify(piece)
        except Tier2Error as error:
            self._unreached = error
            return LogFinding(segment_id, piece.tier, None, unreached=error)
        problems = () if copy.problem is None else (copy.problem,)
        finding = LogFinding(segment_id, piece.tier, copy.records, problems)
        return finding if finding.is_reported else None

    def _moved(self, segment_id: int, piece: LogPiece) -> LogFinding | None:
        """From the warmest tier that has it by now; None if that is none, or Tier 0."""
        state = recorded_states(self._disk, self._paths).get(segment_id)
        if state is None or not state.is_held or state.residency & Residency.TIER0:
            return None
        tier = 1 if state.residency & Residency.TIER1 else 2
        if tier == 2 and not piece.tier2:
            return LogFinding(segment_id, 2, None, is_unread=True)
        return self._copy(CopyPiece(tier, state))


def join_log(plan: LogPlan, found: Sequence[LogFinding]) -> LogReport:
    """`found` in the order of the pieces."""
    report = LogReport(problems=list(plan.problems))
    owed = set(plan.elsewhere)  # segments that were not read yet
    for one in found:
        report.problems += one.problems
        if one.unreached is not None:
            report.unreached = report.unreached or one.unreached
            continue
        if one.is_unread:
            owed.add(one.segment_id)
            continue
        if one.is_archived:
            report.archived += 1
            continue
        report.warm_files += one.tier == 1
        report.objects += one.tier == 2
        is_owed = one.segment_id in owed and one.records is not None and not one.problems
        if one.tier == 0 or is_owed:
            report.segments += 1
            report.records += one.records or 0
            owed -= set() if one.tier == 0 else {one.segment_id}
    report.unread = sorted(owed)
    report.problems += neighbour_problems(one.outline for one in found if one.outline is not None)
    return report
