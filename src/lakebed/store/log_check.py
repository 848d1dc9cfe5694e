"""Verifies a whole log: segments on disk, warm files, the archive, and optionally Tier 2.

There are three steps, which may run in different processes: `plan_log` lists the pieces to check, a
`LogCheck` checks one piece after another, and `join_log` makes one report of the findings. If a
segment moves to another tier in between, it is checked there (in Tier 2 only if Tier 2 is to be
read); if it is removed, it is not counted.
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

_LOOKS_MAX = 3  # how many times a segment that keeps moving between tiers is looked up


@dataclass
class LogReport:
    """The result of verifying a log."""

    segments: int = 0  # segments read from Tier 0, or if they are not there, from a whole copy
    records: int = 0  # good records in these segments
    warm_files: int = 0  # warm files that were read, whole or damaged
    objects: int = 0  # objects in Tier 2 that were read, whole or damaged
    unread: list[int] = field(default_factory=list)  # ids of segments only in Tier 2, and not read
    problems: list[Problem] = field(default_factory=list)
    unreached: Tier2Error | None = None  # why not all objects were read
    archived: int = 0  # segments in the archive, which no other field counts


class LogPiece(NamedTuple):
    """One unit of the check: a segment in Tier 0 or the archive, or a copy in Tier 1 or Tier 2."""

    log: str
    what: SegmentPiece | CopyPiece
    tier2: bool = False  # whether a segment that moved to Tier 2 meanwhile is read from there


class LogPlan(NamedTuple):
    """The pieces to check, and the problems found while they were listed."""

    log: str
    problems: tuple[Problem, ...]
    elsewhere: tuple[int, ...]  # ids of segments that are only in Tier 1 or Tier 2
    unread: tuple[int, ...]  # ids of segments that are only in Tier 2, which is not to be read
    pieces: tuple[LogPiece, ...]  # archive first, then segments on disk, warm files, objects


class LogFinding(NamedTuple):
    """The result of checking one `LogPiece`."""

    segment_id: int
    tier: int  # of the piece; 0 also for a segment that left Tier 0 and was read from elsewhere
    records: int | None  # good ones; None if not read, or for a damaged copy in Tier 1 or 2
    problems: tuple[Problem, ...] = ()
    unreached: Tier2Error | None = None
    is_unread: bool = False  # the segment is only in Tier 2 now, and Tier 2 is not to be read
    outline: Outline | None = None  # only for a segment in Tier 0
    is_archived: bool = False

    @property
    def is_reported(self) -> bool:
        """Whether the piece was read, has a problem, or is in a Tier 2 that cannot be reached.

        If none of these is true, and `is_unread` is not set, the piece was removed while the log
        was verified.
        """
        return self.records is not None or bool(self.problems) or self.unreached is not None


def check_log(store: ReadOnlyStore, name: str, *, tier2: bool, progress: Progress) -> LogReport:
    """Verifies all of a log; with `tier2` also its objects in Tier 2.

    Raises `NotFound` if there is no such log. Calls `progress` with the number of pieces that are
    done, and the number of all pieces.
    """
    plan = plan_log(store, name, tier2=tier2)
    check = LogCheck(store, name)
    findings = []
    for count, piece in enumerate(plan.pieces, start=1):
        findings.append(check.run(piece))
        progress(count, len(plan.pieces))
    return join_log(plan, [finding for finding in findings if finding is not None])


def plan_log(store: ReadOnlyStore, name: str, *, tier2: bool) -> LogPlan:
    """Lists the pieces of a log to check; with `tier2` also its objects in Tier 2.

    Raises `NotFound` if there is no such log.
    """
    paths = require_log(store.disk, store.root, name)
    verification = Verification(store.disk, paths)
    copies = Copies(store, paths, verification.states)
    pieces: list[SegmentPiece | CopyPiece] = [*verification.archived(), *verification.pieces()]
    pieces += copies.pieces(1)
    pieces += copies.pieces(2) if tier2 else []
    elsewhere = verification.elsewhere()
    only_in_tier2 = [state for state in elsewhere if not state.residency & Residency.TIER1]
    return LogPlan(
        log=name,
        problems=tuple(verification.problems),
        elsewhere=tuple(state.segment_id for state in elsewhere),
        unread=() if tier2 else tuple(state.segment_id for state in only_in_tier2),
        pieces=tuple(LogPiece(name, piece, tier2) for piece in pieces),
    )


class LogCheck:
    """Checks pieces of one log. Once a call to Tier 2 has failed, Tier 2 is not called again."""

    def __init__(self, store: ReadOnlyStore, name: str) -> None:
        self._disk = store.disk
        self._paths = require_log(store.disk, store.root, name)
        self._copies = Copies(store, self._paths, {})
        self._unreached: Tier2Error | None = None

    def run(self, piece: LogPiece) -> LogFinding | None:
        """Checks one piece; returns None if its file or object was removed since the plan was made.

        If the segment is only in colder tiers now, a copy there is checked instead.
        """
        what = piece.what
        if isinstance(what, CopyPiece):
            return self._copy(what) or self._moved(what.state.segment_id, piece)
        if what.is_archived:
            return self._segment(what)
        for _ in range(_LOOKS_MAX):
            finding = self._segment(what)
            if finding is not None:
                return finding
            moved = self._moved(what.name.segment_id, piece)
            if moved is not None:
                return moved._replace(tier=0)  # counted as the segment, not as a copy of it
        return None

    def _segment(self, piece: SegmentPiece) -> LogFinding | None:
        """Checks a segment's file; returns None if the file does not exist."""
        checked = check_segment(self._disk, piece)
        records = None
        if checked.inspection is not None:
            records = sum(good.record_count for good in checked.inspection.good_ranges)
        finding = LogFinding(
            piece.name.segment_id,
            0,
            records,
            checked.problems,
            outline=None if piece.is_archived else outline_of(checked),
            is_archived=piece.is_archived,
        )
        return finding if finding.is_reported else None

    def _copy(self, piece: CopyPiece) -> LogFinding | None:
        """Checks a copy; returns None if it was removed since the plan was made."""
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
        """Checks a copy of a segment that is no longer in Tier 0: in Tier 1, else in Tier 2.

        Unless `piece.tier2` is set, a copy in Tier 2 is not read, and the finding is marked as
        unread. Returns None if the segment was removed, or is in Tier 0.
        """
        state = recorded_states(self._disk, self._paths).get(segment_id)
        if state is None or not state.is_held or state.residency & Residency.TIER0:
            return None
        tier = 1 if state.residency & Residency.TIER1 else 2
        if tier == 2 and not piece.tier2:
            return LogFinding(segment_id, 2, None, is_unread=True)
        return self._copy(CopyPiece(tier, state))


def join_log(plan: LogPlan, findings: Sequence[LogFinding]) -> LogReport:
    """Combines the findings into one report. They must be in the order of the plan's pieces."""
    report = LogReport(problems=list(plan.problems))
    owed = set(plan.elsewhere)  # segments in colder tiers of which no good copy was read yet
    unread = set(plan.unread)
    judged: set[int] = set()  # segments of which a copy is reported, as whole or as damaged
    for finding in findings:
        report.problems += finding.problems
        if finding.unreached is not None:
            report.unreached = report.unreached or finding.unreached
            unread.add(finding.segment_id)
            continue
        if finding.is_unread:
            owed.add(finding.segment_id)
            unread.add(finding.segment_id)
            continue
        if finding.is_archived:
            report.archived += 1
            continue
        judged.add(finding.segment_id)
        report.warm_files += finding.tier == 1
        report.objects += finding.tier == 2
        is_owed = (
            finding.segment_id in owed and finding.records is not None and not finding.problems
        )
        if finding.tier == 0 or is_owed:
            report.segments += 1
            report.records += finding.records or 0
            owed -= set() if finding.tier == 0 else {finding.segment_id}
    report.unread = sorted(unread - judged)
    report.problems += neighbour_problems(
        finding.outline for finding in findings if finding.outline is not None
    )
    return report
