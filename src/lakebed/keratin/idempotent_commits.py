"""Batches that are appended to a partition once, recognised by their application and version.

    with partition.commits.turn():
        if partition.commits.find("query 7", version=41) is None:
            new = partition.commits.stage("query 7", batches, version=41)
            partition.commits.commit(new)

A commit is written to `commit.bin` first; its batches are appended; the ledger takes it down; and
the file is removed. What a crash or a full disk interrupted is completed when the topic is opened,
or before the partition's next commit. Which batches are in the log already, the writer knows: they
have a producer of their own, who is not forgotten while the file is there, and nothing else goes
by that name. So no sequence is carried from one commit to the next.

Invariants:
- once `commit.bin` is durable all of it will be in the log, once; before, nothing is;
- the ledger has a version only after all of it is durable in the log, and `commit.bin` goes only
  after the ledger is durable;
- readers see all of a commit at once if it fits into a segment; others who write wait meanwhile.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from lakebed.base.commit import SpaceReserve
from lakebed.base.damage_ledger import TOPICS, Loss
from lakebed.base.errors import (
    Closed,
    Corrupt,
    DataError,
    LakebedError,
    NotFound,
    RetryError,
    Torn,
)
from lakebed.base.events import event
from lakebed.base.files import fork_guard, make_folders
from lakebed.base.runner import Event
from lakebed.keratin.append_requests import build_staged_append
from lakebed.keratin.commit_file import Commit, NewCommit, load_commit, log_bytes
from lakebed.keratin.commit_ledger import Committed, Ledger, load_ledger, save_ledger, with_commit
from lakebed.keratin.format import OFFSET_MAX, ProducerRun
from lakebed.keratin.writer_requests import Append

if TYPE_CHECKING:
    from lakebed.keratin.partition import Partition
    from lakebed.keratin.writer import PartitionWriter

_log = logging.getLogger(__name__)


class IdempotentCommits:
    """Of one partition. Thread-safe; but for `turn`, `resume` and `close` within a turn alone."""

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self._disk = partition.disk
        self._paths = partition.paths
        self._reserve = SpaceReserve(
            partition.disk, partition.paths.folder, reserve_bytes=partition.config.reserve_bytes
        )
        self._ledger: Ledger | None = None  # not read yet
        self._is_interrupted = True  # there is a `commit.bin`, as far as is known
        self._process = fork_guard.generation()
        self._mutex = partition.runner.mutex()
        self._busy: Event | None = None  # set when the turn is over; guarded by _mutex
        self._is_closed = False  # guarded by _mutex, too

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """One at a time commits, the others wait; `Closed` if the partition is."""
        fork_guard.check(self._process, self._paths.folder)
        mine = self._partition.runner.event()
        while True:
            with self._mutex:
                if self._is_closed:
                    raise Closed(f"{self._paths.name}: closed")
                busy = self._busy
                if busy is None:
                    self._busy = mine
                    break
            busy.wait()
        try:
            yield
        finally:
            with self._mutex:
                self._busy = None
            mine.set()

    def close(self) -> None:
        """Wait for the one whose turn it is, and refuse all others. Idempotent."""
        while True:
            with self._mutex:
                self._is_closed = True
                busy = self._busy
            if busy is None:
                return
            busy.wait()

    def resume(self) -> None:
        """Complete what was interrupted, before anybody else has the partition.

        If that cannot be done now, it is left to the next commit; nothing else needs it.
        """
        with self.turn():
            try:
                self._complete()
            except (RetryError, DataError) as error:
                self._note(f"{self._paths.name}: an interrupted commit was not completed: {error}")

    def find(self, application: str, *, version: int) -> Committed | None:
        """What became of that version; None if it is new. What was interrupted is completed first.

        Of a version before the last one nobody knows more than that it was committed.
        """
        self._complete()
        last = self._load_ledger().get(application)
        if last is None or last.version < version:
            return None
        return last if last.version == version else Committed(version, None, 0, last.committed_ms)

    def stage(self, application: str, batches: Iterable[bytes], *, version: int) -> NewCommit:
        """Write down a new version: batches that were checked.

        Nothing is changed yet. Whatever comes of it, `discard` is called in the end.
        """
        new = NewCommit(
            self._disk,
            self._paths.commit,
            application=application,
            version=version,
            producer_id=self._new_producer(application, version),
            created_ms=self._partition.now_ms(),
        )
        try:
            for batch in batches:
                self._reserve.check(len(batch))
                new.add(batch)
            self._reserve.check(new.missing_bytes)
            new.finish()
        except BaseException:
            new.discard()
            raise
        return new

    def commit(self, new: NewCommit) -> Committed:
        """Append all of it. Once it is published it stays so: if this raises, then the next who
        commits completes it."""
        self._is_interrupted = True
        new.publish()
        with load_commit(self._disk, self._paths.commit) as commit:
            return self._finish(commit)

    def commit_nothing(self, application: str, *, version: int) -> Committed:
        """A version that has no messages for this partition."""
        here = self._partition.high_watermark()
        return self._take_down(application, self._committed(version, here, 0))

    # What was interrupted.

    def _complete(self) -> None:
        if not self._is_interrupted:
            return
        try:
            commit = load_commit(self._disk, self._paths.commit)
        except NotFound:
            self._is_interrupted = False
        except (Torn, Corrupt) as error:
            self._set_aside(error)
        else:
            with commit:
                self._redo(commit)

    def _redo(self, commit: Commit) -> None:
        producer_id = commit.header.producer_id
        self._partition.change(lambda writer: writer.keep_producer(producer_id))
        # It may have been renamed, and no more than that.
        self._disk.sync_folder(self._paths.folder)
        last = self._load_ledger().get(commit.application)
        if last is None or last.version < commit.version:
            self._finish(commit)
        else:
            # The ledger may have been renamed, and no more than that: so again.
            save_ledger(self._disk, self._paths.ledger, self._load_ledger())
            self._end(commit)

    def _set_aside(self, error: DataError) -> None:
        """It was durable, and is not what was written: what can be done is to say so."""
        path, folder = self._paths.commit, self._paths.quarantine
        make_folders(self._disk, folder)
        name = f"keratin-{self._paths.name}-commit-{self._partition.now_ms()}.bin"
        target = os.path.join(folder, name)
        self._partition.record_loss(
            Loss(
                engine=TOPICS,
                name=self._paths.topic,
                partition=self._paths.number,
                path=path,
                problem=f"{error.problem}: an interrupted commit is lost, in part or as a whole, "
                f"and set aside as {name}",
                saved=(target,),
            )
        )
        self._disk.rename(path, target)
        self._disk.sync_folder(folder)
        self._disk.sync_folder(self._paths.folder)
        self._is_interrupted = False
        self._note(
            f"{error}; a commit that was interrupted is lost in part or as a whole: {target}"
        )

    def _note(self, problem: str) -> None:
        self._partition.problems = (*self._partition.problems, problem)
        _log.error("%s", problem)

    # Appending.

    def _finish(self, commit: Commit) -> Committed:
        base_offset = self._partition.change(lambda writer: self._append(writer, commit))
        assert base_offset is None or isinstance(base_offset, int)
        committed = self._committed(commit.version, base_offset, commit.header.message_count)
        self._take_down(commit.application, committed)
        self._end(commit)
        event(
            _log,
            "batches_committed",
            level=logging.DEBUG,
            partition=self._paths.name,
            application=commit.application,
            version=commit.version,
            messages=committed.message_count,
        )
        return committed

    def _append(self, writer: PartitionWriter, commit: Commit) -> int | None:
        """All that is not there yet, durable when it returns; where the first message is."""
        header = commit.header
        known = _known_count(writer.keep_producer(header.producer_id))
        if known < header.message_count:
            writer.make_room(log_bytes(header))
        piece: list[Append] = []
        size = 0
        for append in _rest(commit, known):
            if piece and size + append.size > self._partition.config.batch_bytes_max:
                writer.append(piece, is_durable=False)
                piece, size = [], 0
            piece.append(append)
            size += append.size
        writer.append(piece, is_durable=True)
        first = writer.keep_producer(header.producer_id)[0]
        return None if first.first_sequence else first.base_offset

    def _committed(self, version: int, base_offset: int | None, count: int) -> Committed:
        return Committed(version, base_offset, count, self._partition.now_ms())

    def _take_down(self, application: str, committed: Committed) -> Committed:
        ledger = with_commit(self._load_ledger(), application, committed)
        save_ledger(self._disk, self._paths.ledger, ledger)
        self._ledger = ledger
        return committed

    def _end(self, commit: Commit) -> None:
        """All of it is in the log and in the ledger."""
        try:
            self._disk.unlink(self._paths.commit)
            self._is_interrupted = False
        except LakebedError as error:
            _log.warning("%s: left behind for now: %s", self._paths.commit, error)
        with contextlib.suppress(LakebedError):  # the rest is done; it will be forgotten anyway
            self._partition.change(lambda writer: writer.drop_producer(commit.header.producer_id))

    def _load_ledger(self) -> Ledger:
        if self._ledger is None:
            self._ledger = load_ledger(self._disk, self._paths.ledger)
        return self._ledger

    def _new_producer(self, application: str, version: int) -> int:
        """An id that no message has. Not even those of the same version, if the ledger forgot
        that: there were fewer messages then."""

        def choose(writer: PartitionWriter) -> int:
            salt = writer.next_offset
            while True:
                text = f"{application}\0{version}\0{salt}".encode()
                producer_id = int.from_bytes(hashlib.sha256(text).digest()[:8]) & OFFSET_MAX
                if not writer.runs_of(producer_id):
                    return producer_id
                salt += 1

        found = self._partition.change(choose)
        assert isinstance(found, int)
        return found


def _known_count(runs: tuple[ProducerRun, ...]) -> int:
    """How many messages of a commit are in the log: they were written in their order."""
    return runs[-1].first_sequence + runs[-1].message_count if runs else 0


def _rest(commit: Commit, known: int) -> Iterator[Append]:
    """What is not in the log."""
    end = 0  # in sequence
    for batch in commit.batches():
        append = build_staged_append(batch)
        start, end = end, end + append.message_count
        if start < known < end or (known > end == commit.header.message_count):
            raise Corrupt(
                "the log has another commit's messages",
                expected=f"{start} or {end} of this one's",
                found=known,
            )
        if known <= start:
            yield append
