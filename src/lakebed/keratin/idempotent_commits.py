"""Commits batches to a partition exactly once, identified by application and version.

    with partition.commits.turn():
        if partition.commits.find("query 7", version=41) is None:
            new = partition.commits.stage("query 7", batches, version=41)
            partition.commits.commit(new)

A commit has four steps: write `commit.bin`, append its batches, record the version in the ledger,
remove `commit.bin`. A commit that a crash or a full disk interrupted is completed when the
partition is opened, or by the next call of `find`. Each commit has its own producer id, which the
writer remembers while `commit.bin` exists. The messages of that producer show which batches are
already in the log, so no sequence is carried from one commit to the next.

Invariants:
- before `commit.bin` is durable, none of its batches is in the log; once it is durable, all of them
  will be in the log exactly once, unless the file is damaged;
- a version is in the ledger only after all its batches are durable in the log, and `commit.bin` is
  removed only after the ledger is durable;
- if a commit fits into one segment and is not interrupted, all its messages become visible to
  readers at the same time; other appends wait while a commit is appended.
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
from lakebed.keratin.commit_file import Commit, NewCommit, checksum_of, load_commit, log_bytes
from lakebed.keratin.commit_ledger import Committed, Ledger, load_ledger, save_ledger, with_commit
from lakebed.keratin.format import OFFSET_MAX, ProducerRun
from lakebed.keratin.writer_requests import Append

if TYPE_CHECKING:
    from lakebed.keratin.partition import Partition
    from lakebed.keratin.writer import PartitionWriter

_log = logging.getLogger(__name__)


class IdempotentCommits:
    """Commits batches to one partition.

    `turn`, `resume` and `close` are thread-safe. All other methods must be called within a `with`
    block of `turn`.
    """

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self._disk = partition.disk
        self._paths = partition.paths
        self._reserve = SpaceReserve(
            partition.disk, partition.paths.folder, reserve_bytes=partition.config.reserve_bytes
        )
        self._ledger: Ledger | None = None  # None until it is read
        self._is_interrupted = True  # whether a `commit.bin` may exist
        self._process = fork_guard.generation()
        self._mutex = partition.runner.mutex()
        self._busy: Event | None = None  # set when the turn is over; guarded by _mutex
        self._is_closed = False  # guarded by _mutex

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """Holds the exclusive right to commit during a `with` block; other threads wait for it.

        Raises `Closed` if the partition is closed.
        """
        fork_guard.check(self._process, self._paths.folder)
        turn_ended = self._partition.runner.event()
        while True:
            with self._mutex:
                if self._is_closed:
                    raise Closed(f"{self._paths.name}: the partition is closed")
                busy = self._busy
                if busy is None:
                    self._busy = turn_ended
                    break
            busy.wait()
        try:
            yield
        finally:
            with self._mutex:
                self._busy = None
            turn_ended.set()

    def close(self) -> None:
        """Waits until the current block of `turn` ends, and refuses further ones. Idempotent."""
        while True:
            with self._mutex:
                self._is_closed = True
                busy = self._busy
            if busy is None:
                return
            busy.wait()

    def resume(self) -> None:
        """Completes an interrupted commit. `Topics` calls this when it opens the partition.

        If that fails with a `RetryError` or a `DataError`, the problem is logged, and the next
        call of `find` tries again. Other errors are raised.
        """
        with self.turn():
            try:
                self._complete()
            except (RetryError, DataError) as error:
                self._note(f"{self._paths.name}: an interrupted commit was not completed: {error}")

    def find(self, application: str, *, version: int) -> Committed | None:
        """Returns the outcome of `version` if the application has committed it, otherwise None.

        Completes an interrupted commit first. The ledger keeps only the application's last version.
        Every version before that counts as committed; its outcome has no offset and the message
        count 0.
        """
        self._complete()
        last = self._load_ledger().get(application)
        if last is None or last.version < version:
            return None
        return last if last.version == version else Committed(version, None, 0, last.committed_ms)

    def stage(self, application: str, batches: Iterable[bytes], *, version: int) -> NewCommit:
        """Writes the batches, which the caller has validated, to a temporary commit file.

        The partition is not changed yet. The caller must finally call `discard` on the result,
        whether it was committed or not.
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
        """Publishes the commit file and appends its batches.

        The caller must have called `find` before in the same turn. If this raises after the file
        was published, the next call of `find`, or the next opening of the partition, completes this
        commit.
        """
        self._is_interrupted = True
        new.publish()
        with load_commit(self._disk, self._paths.commit) as commit:
            return self._finish(commit)

    def commit_nothing(self, application: str, *, version: int) -> Committed:
        """Records in the ledger a version that has no messages for this partition."""
        offset = self._partition.high_watermark()
        return self._record_in_ledger(application, self._committed(version, offset, 0))

    # Completing an interrupted commit.

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
        # A crash may have followed the rename, before the folder was synced.
        self._disk.sync_folder(self._paths.folder)
        last = self._load_ledger().get(commit.application)
        if last is None or last.version < commit.version:
            self._finish(commit)
        else:
            # The crash may have come before the ledger's rename was durable: save it again.
            save_ledger(self._disk, self._paths.ledger, self._load_ledger())
            self._end(commit)

    def _set_aside(self, error: DataError) -> None:
        """Moves a damaged commit file to the quarantine and records the loss."""
        path, folder = self._paths.commit, self._paths.quarantine
        make_folders(self._disk, folder)
        name = self._paths.saved_name("commit", checksum=checksum_of(self._disk, path))
        target = os.path.join(folder, name)
        self._partition.record_loss(
            Loss(
                engine=TOPICS,
                name=self._paths.topic,
                partition=self._paths.number,
                path=path,
                problem=f"{error.problem}: an interrupted commit is lost, partly or completely; "
                f"its file was moved to the quarantine as {name}",
                saved=(target,),
            )
        )
        self._disk.rename(path, target)
        self._disk.sync_folder(folder)
        self._disk.sync_folder(self._paths.folder)
        self._is_interrupted = False
        self._note(
            f"{error}; an interrupted commit is lost, partly or completely; its file was moved to "
            f"{target}"
        )

    def _note(self, problem: str) -> None:
        self._partition.problems = (*self._partition.problems, problem)
        _log.error("%s", problem)

    # Appending.

    def _finish(self, commit: Commit) -> Committed:
        base_offset = self._partition.change(lambda writer: self._append(writer, commit))
        assert base_offset is None or isinstance(base_offset, int)
        committed = self._committed(commit.version, base_offset, commit.header.message_count)
        self._record_in_ledger(commit.application, committed)
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
        """Appends the batches that are not in the log yet, and makes them durable.

        Returns the offset of the commit's first message, or None if it is not known.
        """
        header = commit.header
        appended_count = _appended_count(writer.keep_producer(header.producer_id))
        if appended_count < header.message_count:
            writer.make_room(log_bytes(header))
        piece: list[Append] = []
        size = 0
        for append in _missing_appends(commit, appended_count, path=self._paths.commit):
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

    def _record_in_ledger(self, application: str, committed: Committed) -> Committed:
        ledger = with_commit(self._load_ledger(), application, committed)
        save_ledger(self._disk, self._paths.ledger, ledger)
        self._ledger = ledger
        return committed

    def _end(self, commit: Commit) -> None:
        """Removes the commit file of a commit that is in the log and in the ledger.

        Also forgets its producer. Errors are not raised; the file is then removed later.
        """
        try:
            self._disk.unlink(self._paths.commit)
            self._is_interrupted = False
        except LakebedError as error:
            _log.warning(
                "%s: the finished commit file could not be removed yet: %s",
                self._paths.commit,
                error,
            )
        with contextlib.suppress(LakebedError):  # the producer is forgotten later anyway
            self._partition.change(lambda writer: writer.drop_producer(commit.header.producer_id))

    def _load_ledger(self) -> Ledger:
        if self._ledger is None:
            self._ledger = load_ledger(self._disk, self._paths.ledger)
        return self._ledger

    def _new_producer(self, application: str, version: int) -> int:
        """Chooses a producer id that the partition does not know.

        The next offset is part of the hash, so the id differs even from that of an earlier commit
        of the same version that the ledger has forgotten.
        """

        def choose(writer: PartitionWriter) -> int:
            salt = writer.next_offset
            while True:
                text = f"{application}\0{version}\0{salt}".encode()
                producer_id = int.from_bytes(hashlib.sha256(text).digest()[:8]) & OFFSET_MAX
                if not writer.runs_of(producer_id):
                    return producer_id
                salt += 1

        producer_id = self._partition.change(choose)
        assert isinstance(producer_id, int)
        return producer_id


def _appended_count(runs: tuple[ProducerRun, ...]) -> int:
    """Returns how many messages of a commit are in the log, according to its producer's runs.

    They are appended in order, so the last run is enough.
    """
    return runs[-1].first_sequence + runs[-1].message_count if runs else 0


def _missing_appends(commit: Commit, appended_count: int, *, path: str) -> Iterator[Append]:
    """Yields an append for each batch of the commit that is not in the log yet.

    `path` is the path of the commit file, for error messages.
    """
    end = 0  # the sequence after the batch
    for batch in commit.batches():
        append = build_staged_append(batch)
        start, end = end, end + append.message_count
        if start < appended_count < end or (appended_count > end == commit.header.message_count):
            raise Corrupt(
                "the log holds an unexpected number of this commit's messages",
                path=path,
                expected=f"{start} or {end}",
                found=appended_count,
            )
        if appended_count <= start:
            yield append
