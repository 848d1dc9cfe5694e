"""Verifying all of a log: the segments on disk, their warm files, and the objects if asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from lakebed.aof.tiers.errors import Tier2Error
from lakebed.store.logs import require_log
from lakebed.store.read_only import ReadOnlyStore
from lakebed.store.tier_verification import Copies
from lakebed.store.verification import Problem, Verification


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


def check_log(
    store: ReadOnlyStore, name: str, *, tier2: bool, progress: Callable[[int, int], None]
) -> LogReport:
    """Everything there is to find. `progress` is told how many of how many copies were read."""
    paths = require_log(store.disk, store.root, name)
    verification = Verification(store.disk, paths)
    copies = Copies(store, paths, verification.states)
    check = _Check(verification, copies, tier2=tier2, progress=progress)
    check.run()
    return check.report


class _Check:
    """One run."""

    def __init__(
        self,
        verification: Verification,
        copies: Copies,
        *,
        tier2: bool,
        progress: Callable[[int, int], None],
    ) -> None:
        self._verification = verification
        self._copies = copies
        self._tier2 = tier2
        self._progress = progress
        self._done = 0
        counts = (copies.count(1), copies.count(2) if tier2 else 0)
        self._total = len(verification.names) + sum(counts)
        # Segments that were not read yet.
        self._owed = {state.segment_id for state in verification.elsewhere()}
        self.report = LogReport(problems=list(verification.problems))

    def run(self) -> None:
        report = self.report
        for found in self._verification.segments():
            report.segments += 1
            report.problems += found.problems
            if found.inspection is not None:
                report.records += sum(good.record_count for good in found.inspection.good_ranges)
            self._step()
        report.warm_files = self._read(1)
        try:
            report.objects = self._read(2) if self._tier2 else 0
        except Tier2Error as error:
            report.unreached = error
        report.unread = sorted(self._owed)

    def _read(self, tier: int) -> int:
        """How many there are."""
        count = 0
        for copy in self._copies.verify(tier):
            count += 1
            if copy.problem is not None:
                self.report.problems.append(copy.problem)
            elif copy.segment_id in self._owed and copy.records is not None:
                self.report.segments += 1
                self.report.records += copy.records
                self._owed.discard(copy.segment_id)
            self._step()
        return count

    def _step(self) -> None:
        self._done += 1
        self._progress(self._done, self._total)
