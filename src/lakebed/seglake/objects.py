"""Puts, copies and deletes objects. Reading is in `object_reader`.

Every change is acknowledged once it is durable. Conditions are checked in the transaction that
makes the change, so exactly one of several concurrent put-if-absent requests succeeds.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

from lakebed.base.commit import Barrier, Ticket
from lakebed.base.errors import InputError, LakebedError, TooLarge
from lakebed.base.layout import Buffer
from lakebed.base.runner import Runner
from lakebed.base.units import shown
from lakebed.seglake.body import (
    INLINE_BYTES_MAX,
    Body,
    BodyWriter,
    Source,
    pieces_of,
    small_body,
)
from lakebed.seglake.bucket_guard import BucketGuard
from lakebed.seglake.change import Change, ChangeInSteps
from lakebed.seglake.chunk_buffers import ChunkBuffers
from lakebed.seglake.chunk_reader import ChunkReader
from lakebed.seglake.conditions import NotModified, ReadCondition
from lakebed.seglake.config import SeglakeConfig
from lakebed.seglake.digests import BodyDigests, Expected, decoded
from lakebed.seglake.errors import ConditionConflict, Damaged, PreconditionFailed
from lakebed.seglake.meta.database import Database
from lakebed.seglake.meta.writer import Writer
from lakebed.seglake.model import (
    NO_CONDITION,
    Algorithm,
    Checksum,
    Chunk,
    Condition,
    Content,
    Deleted,
    ObjectInfo,
    ObjectToDelete,
    State,
)
from lakebed.seglake.names import check_key
from lakebed.seglake.object_reader import (
    FoundVersion,
    MarkDamaged,
    ObjectReader,
    ReadableObjects,
    require_object,
)
from lakebed.seglake.ranges import ByteRange
from lakebed.seglake.segment_pool import SegmentPool
from lakebed.seglake.versions import (
    NewVersion,
    PlannedPut,
    VersionRules,
    check_condition,
    require_bucket,
)

Result = TypeVar("Result")

NO_CONTENT = Content()
NOTHING_EXPECTED = Expected()
DEFAULT_ALGORITHM = Algorithm.CRC64NVME
DELETED_AT_ONCE_MAX = 1000


class Put(Generic[Result]):
    """An upload in progress, whose body becomes an object or a part.

    End it with `finish`, `submit` or `change`. As a context manager, it abandons the body if none
    of these succeeded.
    """

    def __init__(
        self,
        writer: BodyWriter,
        barrier: Barrier[Change[Any], Any],
        *,
        apply: Callable[[Writer, Body, tuple[Chunk, ...]], Result],
        check_early: Callable[[], None],
        expected: Expected,
        size: int | None,
        plan: Callable[[Body, tuple[Chunk, ...]], PlannedPut] | None = None,
    ) -> None:
        """`apply` makes the change in the transaction, given the body and its chunks.

        For a put without a condition, `plan` returns what `apply` would do, so that a commit can
        apply consecutive puts with fewer statements. `check_early` is called by `check`.
        """
        self._writer = writer
        self._barrier = barrier
        self._apply = apply
        self._plan = plan
        self._check_early = check_early
        self._expected = expected
        self._size = size
        self._received_bytes = 0

    def check(self) -> None:
        """Checks the bucket and the condition before the body of an object is received.

        Raises `NoSuchBucket` if the bucket does not exist, and `PreconditionFailed` or `NoSuchKey`
        if the current object does not meet the condition. The commit checks both again. Does
        nothing for a part.
        """
        self._check_early()

    def write(self, data: Buffer) -> None:
        """Adds the next bytes of the body. Raises `TooLarge` if it exceeds the maximum size.

        Raises the errors of `check` when the body becomes larger than `INLINE_BYTES_MAX`.
        """
        was_small = self._received_bytes <= INLINE_BYTES_MAX
        self._received_bytes += len(data)
        if was_small and self._received_bytes > INLINE_BYTES_MAX:
            self._check_early()  # rather than after gigabytes
        self._writer.write(data)

    def expect(self, checksum: Checksum) -> None:
        """Adds a checksum that the body must have, such as one received in a trailer.

        Its algorithm must have been passed when the put was started. Raises `InputError` if its
        value is malformed.
        """
        decoded(checksum)
        checksums = (*self._expected.checksums, checksum)
        self._expected = self._expected._replace(checksums=checksums)

    def finish(self) -> Result:
        """Commits the body and returns the object or part once it is durable."""
        return self.change().run()

    def submit(self) -> Ticket[Result]:
        """Ends the body, queues its commit and returns a ticket for the object or part.

        Does not wait for the commit, only for queue space. Raises the errors of `change`.
        """
        return self.change().submit()

    def change(self) -> Change[Result]:
        """Ends the body, and returns the change that creates the object or part.

        Raises `BadSize` or `BadDigest` if the body does not have the expected size or digests.
        """
        body = self._writer.finish(expected=self._expected, size=self._size)
        apply, plan = self._apply, self._plan
        return Change(
            self._barrier,
            lambda writer, chunks: apply(writer, body, chunks),
            body,
            None if plan is None else partial(plan, body),
        )

    def give_up(self) -> None:
        """Abandons the body. Does nothing if the put was completed by `change`. Idempotent."""
        self._writer.give_up()

    def __enter__(self) -> Put[Result]:
        return self

    def __exit__(self, *_: object) -> None:
        self.give_up()


class Objects(ReadableObjects):
    """Reads and writes objects. Thread-safe."""

    def __init__(
        self,
        database: Database,
        chunks: ChunkReader,
        *,
        mark_damaged: MarkDamaged,
        segments: SegmentPool,
        barrier: Barrier[Change[Any], Any],
        rules: VersionRules,
        guard: BucketGuard,
        config: SeglakeConfig,
        runner: Runner,
    ) -> None:
        super().__init__(database, chunks, mark_damaged=mark_damaged, runner=runner, config=config)
        self._segments = segments
        self._buffers = ChunkBuffers()
        self._barrier = barrier
        self._rules = rules
        self.guard = guard
        self._config = config
        self._runner = runner

    def put(
        self,
        bucket: str,
        key: str,
        source: Source,
        *,
        content: Content = NO_CONTENT,
        condition: Condition = NO_CONDITION,
        algorithm: Algorithm | None = None,
        expected: Expected = NOTHING_EXPECTED,
        size: int | None = None,
    ) -> ObjectInfo:
        """Stores an object and returns it once it is durable.

        If reading `source` raises an error, nothing is stored and the error is passed on.
        """
        if isinstance(source, bytes) and len(source) <= INLINE_BYTES_MAX and size is None:
            return self.small_put(
                bucket,
                key,
                source,
                content=content,
                condition=condition,
                algorithm=algorithm,
                expected=expected,
            ).run()
        with self.begin_put(
            bucket,
            key,
            content=content,
            condition=condition,
            algorithm=algorithm,
            expected=expected,
            size=size,
        ) as put:
            for piece in pieces_of(source):
                put.write(piece)
            return put.finish()

    def small_put(
        self,
        bucket: str,
        key: str,
        data: Buffer,
        *,
        content: Content = NO_CONTENT,
        condition: Condition = NO_CONDITION,
        algorithm: Algorithm | None = None,
        expected: Expected = NOTHING_EXPECTED,
    ) -> Change[ObjectInfo]:
        """Prepares a put of a complete body of at most `INLINE_BYTES_MAX` bytes.

        Raises `BadDigest` if the body does not match `expected`, `TooLarge` if it exceeds the
        maximum object size, `BadKey` if the key is not valid, and `ReservedBucket` if the bucket is
        reserved.
        """
        assert len(data) <= INLINE_BYTES_MAX, "a large body is written as it arrives"
        check_key(key)
        condition = self.guard.write_condition(bucket, condition)
        body = small_body(
            data,
            algorithms=wanted_algorithms(algorithm, expected),
            expected=expected,
            size_max=self._config.max_object_size,
            what=f"{bucket}/{shown(key)}",
        )

        def plan(chunks: tuple[Chunk, ...]) -> PlannedPut:
            return planned_put(bucket, key, body, chunks, content)

        def apply(writer: Writer, chunks: tuple[Chunk, ...]) -> ObjectInfo:
            return self._rules.put(writer, *plan(chunks), condition)

        return Change(self._barrier, apply, body, None if condition.is_given else plan)

    def begin_put(
        self,
        bucket: str,
        key: str,
        *,
        content: Content = NO_CONTENT,
        condition: Condition = NO_CONDITION,
        algorithm: Algorithm | None = None,
        expected: Expected = NOTHING_EXPECTED,
        size: int | None = None,
        as_owner: bool = False,
    ) -> Put[ObjectInfo]:
        """Starts to store an object whose body arrives in pieces.

        `size` is the announced size, if known. If neither `algorithm` nor an expected checksum is
        given, a CRC64NVME is computed. Only the owner of a reserved bucket may pass `as_owner`.
        """
        check_key(key)
        condition = self.guard.write_condition(bucket, condition, as_owner=as_owner)
        object_name = f"{bucket}/{shown(key)}"

        def plan(body: Body, chunks: tuple[Chunk, ...]) -> PlannedPut:
            return planned_put(bucket, key, body, chunks, content)

        def apply(writer: Writer, body: Body, chunks: tuple[Chunk, ...]) -> ObjectInfo:
            return self._rules.put(writer, *plan(body, chunks), condition)

        def check_early() -> None:
            with self._database.snapshot() as reader:
                require_bucket(reader, bucket)
                check_condition(condition, reader.current(bucket, key), what=object_name)

        writer = self.body_writer(
            wanted_algorithms(algorithm, expected),
            what=object_name,
            size_max=self._config.max_object_size,
            size=size,
        )
        return Put(
            writer,
            self._barrier,
            apply=apply,
            check_early=check_early,
            expected=expected,
            size=size,
            plan=None if condition.is_given else plan,
        )

    def body_writer(
        self, algorithms: Iterable[Algorithm], *, what: str, size_max: int, size: int | None
    ) -> BodyWriter:
        """Returns a writer for a body of the announced `size`, which is None if it is not known.

        Raises `TooLarge` if `size` exceeds `size_max`; 0 means no limit. `what` names the body in
        errors.
        """
        if size_max and size is not None and size > size_max:
            raise TooLarge(f"{what}: the size in bytes", size=size, limit=size_max)
        return BodyWriter(
            self._segments,
            self._buffers,
            runner=self._runner,
            algorithms=algorithms,
            size_max=size_max,
            what=what,
        )

    def copy(
        self,
        source_bucket: str,
        source_key: str,
        bucket: str,
        key: str,
        *,
        source_version_id: str | None = None,
        source_condition: ReadCondition | None = None,
        content: Content | None = None,
        condition: Condition = NO_CONDITION,
        algorithm: Algorithm | None = None,
    ) -> ObjectInfo:
        return self.copying(
            source_bucket,
            source_key,
            bucket,
            key,
            source_version_id=source_version_id,
            source_condition=source_condition,
            content=content,
            condition=condition,
            algorithm=algorithm,
        ).run()

    def copying(
        self,
        source_bucket: str,
        source_key: str,
        bucket: str,
        key: str,
        *,
        source_version_id: str | None = None,
        source_condition: ReadCondition | None = None,
        content: Content | None = None,
        condition: Condition = NO_CONDITION,
        algorithm: Algorithm | None = None,
    ) -> ChangeInSteps[ObjectInfo]:
        """Prepares a copy of an object. The copy shares the chunks of its source.

        If `content` is given, it replaces the source's headers and user metadata. The source's data
        is not written again, and is read only if a checksum with `algorithm` must be computed. If
        the source is replaced before the commit, the change raises `ConditionConflict` if
        `algorithm` was given, and otherwise copies the new version. The change raises `Damaged` if
        the source is marked as damaged.
        """
        check_key(key)
        condition = self.guard.write_condition(bucket, condition)
        source_checksum: tuple[str, Checksum] | None = None

        def apply(writer: Writer, _chunks: tuple[Chunk, ...]) -> ObjectInfo:
            source = require_object(writer, source_bucket, source_key, source_version_id)
            if source_condition is not None:
                _check_source(source_condition, source)
            _check_whole(source)
            manifest = source.manifest
            checksums = manifest.checksums
            if source_checksum is not None:
                version_id, checksum = source_checksum
                if version_id != manifest.version_id:
                    raise ConditionConflict(
                        f"{source_bucket}/{shown(source_key)}: "
                        "the source changed during the copy; retry the copy"
                    )
                checksums = (checksum,)
            new = NewVersion(
                size=manifest.size,
                etag=manifest.etag,
                chunks=manifest.chunks,
                content=manifest.content if content is None else content,
                checksums=checksums,
                part_sizes=manifest.part_sizes,
            )
            return self._rules.put(writer, bucket, key, new, condition)

        def steps() -> Generator[None, None, Change[ObjectInfo]]:
            nonlocal source_checksum
            if algorithm is not None:
                source = self.get(
                    source_bucket, source_key, version_id=source_version_id, waits=False
                )
                checksum = yield from _computed(source, algorithm)
                source_checksum = source.info.version_id, checksum
            return Change(self._barrier, apply)

        return ChangeInSteps(steps())

    def get_source(
        self,
        bucket: str,
        key: str,
        *,
        version_id: str | None = None,
        byte_range: ByteRange | None = None,
        condition: ReadCondition | None = None,
    ) -> ObjectReader:
        """Returns a reader of the source of a copy.

        Works like `get` with `waits` False, but raises `PreconditionFailed`, not `NotModified`.
        """
        try:
            return self.get(
                bucket,
                key,
                version_id=version_id,
                byte_range=byte_range,
                condition=condition,
                waits=False,
            )
        except NotModified as error:
            raise PreconditionFailed(str(error)) from error

    def delete(
        self,
        bucket: str,
        key: str,
        *,
        version_id: str | None = None,
        condition: Condition = NO_CONDITION,
        as_owner: bool = False,
    ) -> Deleted:
        return self.deletion(
            bucket, ObjectToDelete(key, version_id, condition), as_owner=as_owner
        ).run()

    def delete_many(
        self, bucket: str, objects: Sequence[ObjectToDelete]
    ) -> list[Deleted | LakebedError]:
        """Deletes up to 1,000 objects independently, and returns a result or an error for each.

        Raises `InputError` if there are more objects, `NoSuchBucket` if the bucket does not exist,
        and `ReservedBucket` if it is reserved.
        """
        tickets: list[Ticket[Deleted] | LakebedError] = []
        for change in self.deletions(bucket, objects):
            try:
                tickets.append(change.submit() if isinstance(change, Change) else change)
            except LakebedError as error:
                tickets.append(error)
        results: list[Deleted | LakebedError] = []
        for ticket in tickets:
            try:
                results.append(ticket.wait() if isinstance(ticket, Ticket) else ticket)
            except LakebedError as error:
                results.append(error)
        return results

    def deletions(
        self, bucket: str, objects: Sequence[ObjectToDelete]
    ) -> list[Change[Deleted] | LakebedError]:
        """Returns, for each object, a prepared delete, or an error if its key is invalid.

        Raises `InputError` if there are more than 1,000 objects, `NoSuchBucket` if the bucket does
        not exist, and `ReservedBucket` if it is reserved.
        """
        if len(objects) > DELETED_AT_ONCE_MAX:
            raise InputError(
                f"the request lists {len(objects)} objects to delete, but may list at most "
                f"{DELETED_AT_ONCE_MAX}"
            )
        self.guard.check_change(bucket)
        with self._database.snapshot() as reader:
            require_bucket(reader, bucket)
        changes: list[Change[Deleted] | LakebedError] = []
        for target in objects:
            try:
                changes.append(self.deletion(bucket, target))
            except LakebedError as error:
                changes.append(error)
        return changes

    def deletion(
        self, bucket: str, target: ObjectToDelete, *, as_owner: bool = False
    ) -> Change[Deleted]:
        """Prepares the delete of an object, or the permanent removal of one of its versions.

        `target` names the object or version, which need not exist. But if `target` has the
        condition If-Match, the key's current object must exist and match, even if another version
        is to be removed.
        """
        key, version_id, condition = target
        check_key(key)
        self.guard.check_change(bucket, as_owner=as_owner)

        def apply(writer: Writer, _chunks: tuple[Chunk, ...]) -> Deleted:
            if version_id is None:
                return self._rules.delete(writer, bucket, key, condition)
            return self._rules.delete_version(writer, bucket, key, version_id, condition)

        return Change(self._barrier, apply)


def _computed(source: ObjectReader, algorithm: Algorithm) -> Generator[None, None, Checksum]:
    """Returns the full-object checksum of the source, and computes it if none is stored.

    If the source has to be read, yields before the first chunk and after each chunk.
    """
    for checksum in source.info.checksums:
        if checksum.algorithm is algorithm and not checksum.is_composite:
            return checksum
    yield
    digests = BodyDigests([algorithm])
    for piece in source:
        digests.update(piece)
        yield
    return digests.checksums()[0]


def planned_put(
    bucket: str, key: str, body: Body, chunks: tuple[Chunk, ...], content: Content
) -> PlannedPut:
    new = NewVersion(body.size, body.md5.hex(), chunks, content, body.checksums)
    return PlannedPut(bucket, key, new)


def wanted_algorithms(algorithm: Algorithm | None, expected: Expected) -> list[Algorithm]:
    """Returns the checksum algorithms to compute for a body.

    They are those of the expected checksums and `algorithm`, or CRC64NVME if there are none. Raises
    `InputError` if an expected checksum is malformed.
    """
    for checksum in expected.checksums:
        decoded(checksum)
    algorithms = [checksum.algorithm for checksum in expected.checksums]
    if algorithm is not None and algorithm not in algorithms:
        algorithms.append(algorithm)
    return algorithms or [DEFAULT_ALGORITHM]


def _check_whole(source: FoundVersion) -> None:
    """Raises `Damaged` if the source of a copy is marked as damaged.

    The copy would share its chunks, but would not be marked.
    """
    if source.row.state is State.DAMAGED:
        row = source.row
        raise Damaged(f"{row.bucket}/{shown(row.key)}: the object is damaged and cannot be copied")


def _check_source(condition: ReadCondition, source: FoundVersion) -> None:
    try:
        condition.check(etag=source.manifest.etag, modified_ms=source.manifest.modified_ms)
    except NotModified as error:
        raise PreconditionFailed(str(error)) from error
