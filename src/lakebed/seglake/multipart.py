"""Multipart uploads: an object is uploaded in parts, in any order, which are joined at the end.

A part is stored like the body of an object and recorded with a manifest of its own. Completing an
upload creates an object from the chunks of the listed parts, without copying them, and removes the
upload in the same transaction. So after a crash, either the upload exists with its parts, or the
object exists.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from random import Random
from typing import Any, NamedTuple

from lakebed.base.clock import NS_PER_MS, Clock
from lakebed.base.commit import Barrier
from lakebed.base.errors import InputError, TooLarge
from lakebed.base.units import GIB, shown
from lakebed.seglake import digests
from lakebed.seglake.body import Body, Source, pieces_of
from lakebed.seglake.change import Change, ChangeInSteps
from lakebed.seglake.conditions import ReadCondition
from lakebed.seglake.config import SeglakeConfig
from lakebed.seglake.digests import Expected
from lakebed.seglake.errors import (
    BadDigest,
    BadPart,
    BadPartOrder,
    BadSize,
    NoSuchUpload,
    PartTooSmall,
)
from lakebed.seglake.listing import list_uploads
from lakebed.seglake.manifest import Manifest
from lakebed.seglake.meta.database import Database
from lakebed.seglake.meta.reader import Reader
from lakebed.seglake.meta.rows import UploadRow
from lakebed.seglake.meta.writer import Writer
from lakebed.seglake.model import (
    NO_CONDITION,
    Algorithm,
    Checksum,
    Chunk,
    Condition,
    Content,
    ObjectInfo,
    Page,
)
from lakebed.seglake.names import check_key
from lakebed.seglake.objects import (
    DEFAULT_ALGORITHM,
    NO_CONTENT,
    NOTHING_EXPECTED,
    Objects,
    Put,
    wanted_algorithms,
)
from lakebed.seglake.ranges import ByteRange
from lakebed.seglake.upload_rows import (
    PartInfo,
    UploadInfo,
    all_parts,
    part_info,
    part_manifest,
    part_row,
    upload_info,
    upload_row,
)
from lakebed.seglake.versions import NewVersion, VersionRules, require_bucket

PART_NUMBER_MAX = 10_000
PART_BYTES_MAX = 5 * GIB
LISTED_MAX = 1000


class PartPage(NamedTuple):
    upload: UploadInfo
    parts: list[PartInfo]
    next_number: int | None  # pass it as `after` to get the next page; None on the last page


class NamedPart(NamedTuple):
    """A part that is listed in the request to complete an upload."""

    number: int
    etag: str
    checksum: Checksum | None = None


class Uploads:
    """Creates, completes, aborts and lists multipart uploads, and stores their parts.

    Thread-safe.
    """

    def __init__(
        self,
        database: Database,
        objects: Objects,
        barrier: Barrier[Change[Any], Any],
        *,
        rules: VersionRules,
        config: SeglakeConfig,
        clock: Clock,
        random: Random,
    ) -> None:
        self._database = database
        self._objects = objects
        self._guard = objects.guard
        self._barrier = barrier
        self._rules = rules
        self._config = config
        self._clock = clock
        self._random = random

    def create(
        self,
        bucket: str,
        key: str,
        *,
        content: Content = NO_CONTENT,
        algorithm: Algorithm | None = None,
        is_composite: bool | None = None,
    ) -> UploadInfo:
        return self.creation(
            bucket, key, content=content, algorithm=algorithm, is_composite=is_composite
        ).run()

    def creation(
        self,
        bucket: str,
        key: str,
        *,
        content: Content = NO_CONTENT,
        algorithm: Algorithm | None = None,
        is_composite: bool | None = None,
    ) -> Change[UploadInfo]:
        """Prepares the start of a multipart upload.

        `algorithm` is that of the object's checksum; None means that parts may use any. If
        `is_composite` is None, a CRC64NVME checksum covers the full object, and a checksum with any
        other algorithm is composite.
        """
        check_key(key)
        self._guard.check_change(bucket)
        if is_composite is None:
            is_composite = algorithm is not None and algorithm is not Algorithm.CRC64NVME
        if algorithm is not None:
            _check_kind(algorithm, is_composite=is_composite)
        started_ms = self._clock.wall_ns() // NS_PER_MS
        upload = UploadInfo(
            # Uploads of a key are listed in order of id, and the time makes that oldest first.
            upload_id=f"{started_ms:012x}{self._random.getrandbits(80):020x}",
            bucket=bucket,
            key=key,
            started_ms=started_ms,
            content=content,
            algorithm=algorithm,
            is_composite=is_composite,
        )

        def apply(writer: Writer, _chunks: tuple[Chunk, ...]) -> UploadInfo:
            require_bucket(writer, bucket)
            writer.add_upload(upload_row(upload))
            return upload

        return Change(self._barrier, apply)

    def put_part(
        self,
        bucket: str,
        key: str,
        upload_id: str,
        number: int,
        source: Source,
        *,
        expected: Expected = NOTHING_EXPECTED,
        size: int | None = None,
    ) -> PartInfo:
        """Stores a part of an upload and returns it once it is durable.

        The new part replaces an existing part with the same number.
        """
        with self.begin_part(bucket, key, upload_id, number, expected=expected, size=size) as put:
            for piece in pieces_of(source):
                put.write(piece)
            return put.finish()

    def begin_part(
        self,
        bucket: str,
        key: str,
        upload_id: str,
        number: int,
        *,
        algorithm: Algorithm | None = None,
        expected: Expected = NOTHING_EXPECTED,
        size: int | None = None,
    ) -> Put[PartInfo]:
        """Starts to store a part whose body arrives in pieces.

        The part's checksum must use the algorithm of the upload. If the upload has no algorithm,
        the part may use any, and a CRC64NVME is also stored, so that the CRC64NVME of the whole
        object can be computed later.
        """
        self._guard.check_change(bucket)
        if not 1 <= number <= PART_NUMBER_MAX:
            raise InputError(f"part {number}: the part number must be 1 to {PART_NUMBER_MAX}")
        part_name = f"{bucket}/{shown(key)}, part {number}"
        with self._database.snapshot() as reader:
            upload = require_upload(reader, bucket, key, upload_id)
            self._check_whole(reader, upload_id, number, size or 0)
        algorithms = wanted_algorithms(algorithm, expected)
        if upload.algorithm is None:
            algorithms = list(dict.fromkeys((*algorithms, DEFAULT_ALGORITHM)))
        elif algorithm is None and not expected.checksums:
            algorithms = [upload.algorithm]
        elif algorithms != [upload.algorithm]:
            names = " and ".join(algorithm.value for algorithm in algorithms)
            raise InputError(
                f"{part_name}: the part has a {names} checksum, "
                f"but the upload uses {upload.algorithm.value}"
            )

        def apply(writer: Writer, body: Body, chunks: tuple[Chunk, ...]) -> PartInfo:
            require_upload(writer, bucket, key, upload_id)
            self._check_whole(writer, upload_id, number, body.size)
            part = PartInfo(
                number=number,
                etag=body.md5.hex(),
                size=body.size,
                modified_ms=self._clock.wall_ns() // NS_PER_MS,
                checksums=body.checksums,
            )
            writer.put_part(part_row(upload, part, chunks))
            return part

        return Put(
            self._objects.body_writer(
                algorithms, what=part_name, size_max=PART_BYTES_MAX, size=size
            ),
            self._barrier,
            apply=apply,
            check_early=lambda: None,
            expected=expected,
            size=size,
        )

    def copy_part(
        self,
        source_bucket: str,
        source_key: str,
        bucket: str,
        key: str,
        upload_id: str,
        number: int,
        *,
        source_version_id: str | None = None,
        source_condition: ReadCondition | None = None,
        byte_range: ByteRange | None = None,
    ) -> PartInfo:
        return self.part_copying(
            source_bucket,
            source_key,
            bucket,
            key,
            upload_id,
            number,
            source_version_id=source_version_id,
            source_condition=source_condition,
            byte_range=byte_range,
        ).run()

    def part_copying(
        self,
        source_bucket: str,
        source_key: str,
        bucket: str,
        key: str,
        upload_id: str,
        number: int,
        *,
        source_version_id: str | None = None,
        source_condition: ReadCondition | None = None,
        byte_range: ByteRange | None = None,
    ) -> ChangeInSteps[PartInfo]:
        """Prepares a part that is copied from an object or, with `byte_range`, from a range of it.

        The steps read the source's bytes and write them again.
        """
        self._guard.check_change(bucket)

        def steps() -> Generator[None, None, Change[PartInfo]]:
            source = self._objects.get_source(
                source_bucket,
                source_key,
                version_id=source_version_id,
                byte_range=byte_range,
                condition=source_condition,
            )
            yield
            with self.begin_part(bucket, key, upload_id, number, size=len(source)) as put:
                for piece in source:
                    put.write(piece)
                    yield
                return put.change()

        return ChangeInSteps(steps())

    def parts(
        self, bucket: str, key: str, upload_id: str, *, after: int = 0, max_parts: int = LISTED_MAX
    ) -> PartPage:
        """Returns a page of the upload's parts with numbers above `after`, in order of number.

        A page has at most `max_parts` parts, and never more than 1,000. A page of 0 parts is always
        the last page.
        """
        limit = max(0, min(max_parts, LISTED_MAX))
        with self._database.snapshot() as reader:
            upload = require_upload(reader, bucket, key, upload_id)
            rows = reader.parts(upload_id, after=after, limit=limit + 1)
        parts = [part_info(row) for row in rows[:limit]]
        has_more = len(rows) > limit > 0
        return PartPage(upload, parts, parts[-1].number if has_more else None)

    def list(
        self,
        bucket: str,
        *,
        prefix: str = "",
        delimiter: str = "",
        key_marker: str = "",
        upload_id_marker: str | None = None,
        max_uploads: int = LISTED_MAX,
    ) -> Page[UploadRow]:
        """Returns a page of uploads in progress, in order of key, and oldest first within a key."""
        with self._database.snapshot() as reader:
            require_bucket(reader, bucket)
            return list_uploads(
                reader,
                bucket,
                prefix=prefix,
                delimiter=delimiter,
                key_marker=key_marker,
                upload_id_marker=upload_id_marker,
                max_uploads=max_uploads,
            )

    def abort(self, bucket: str, key: str, upload_id: str) -> None:
        self.cancellation(bucket, key, upload_id).run()

    def cancellation(self, bucket: str, key: str, upload_id: str) -> Change[None]:
        """Prepares an abort: the removal of the upload and its parts."""
        self._guard.check_change(bucket)

        def apply(writer: Writer, _chunks: tuple[Chunk, ...]) -> None:
            require_upload(writer, bucket, key, upload_id)
            writer.remove_upload(upload_id)

        return Change(self._barrier, apply)

    def complete(
        self,
        bucket: str,
        key: str,
        upload_id: str,
        parts: Sequence[NamedPart],
        *,
        condition: Condition = NO_CONDITION,
        checksum: Checksum | None = None,
        size: int | None = None,
    ) -> ObjectInfo:
        return self.completion(
            bucket, key, upload_id, parts, condition=condition, checksum=checksum, size=size
        ).run()

    def completion(
        self,
        bucket: str,
        key: str,
        upload_id: str,
        parts: Sequence[NamedPart],
        *,
        condition: Condition = NO_CONDITION,
        checksum: Checksum | None = None,
        size: int | None = None,
    ) -> Change[ObjectInfo]:
        """Prepares the completion of an upload: creates an object from `parts`, in that order.

        Parts that are not listed are dropped. Raises `InputError` if no part is listed, and
        `BadPartOrder` if the part numbers do not ascend. The change raises `NoSuchUpload` if the
        upload does not exist, `BadPart` if a part was not uploaded or has another ETag or checksum,
        `PartTooSmall` or `TooLarge`, and `BadDigest` or `BadSize` if the object does not have the
        given `checksum` or `size`.
        """
        condition = self._guard.write_condition(bucket, condition)
        if not parts:
            raise InputError(
                f"{bucket}/{shown(key)}: at least one part must be listed to complete an upload"
            )
        numbers = [part.number for part in parts]
        if numbers != sorted(set(numbers)):
            raise BadPartOrder("each part must be listed once, in ascending order of part numbers")
        # Decoded before the transaction, because other changes wait for the transaction.
        with self._database.snapshot() as reader:
            decoded = {row.chunks: part_manifest(row) for row in all_parts(reader, upload_id)}

        def apply(writer: Writer, _chunks: tuple[Chunk, ...]) -> ObjectInfo:
            upload = require_upload(writer, bucket, key, upload_id)
            manifests = _named_parts(writer, upload, parts, decoded)
            total_size = self._check_sizes(numbers, manifests)
            if size not in (None, total_size):
                raise BadSize(
                    f"the listed parts have {total_size} bytes, but {size} bytes were announced"
                )
            checksums = _whole_checksum(upload, manifests)
            if checksum is not None and checksum not in checksums:
                raise BadDigest(
                    f"the joined parts do not have the {checksum.algorithm.value} checksum "
                    f"{shown(checksum.value)}, which the request announced"
                )
            new = NewVersion(
                size=total_size,
                etag=digests.multipart_etag([part.etag for part in manifests]),
                chunks=tuple(chunk for part in manifests for chunk in part.chunks),
                content=upload.content,
                checksums=checksums,
                part_sizes=tuple(part.size for part in manifests),
            )
            info = self._rules.put(writer, bucket, key, new, condition)
            writer.remove_upload(upload_id)
            return info

        return Change(self._barrier, apply)

    def _check_sizes(self, numbers: Sequence[int], parts: Sequence[Manifest]) -> int:
        """Returns the total size of the parts.

        Raises `PartTooSmall` if a part other than the last is too small, and `TooLarge` if the
        total exceeds the maximum object size.
        """
        minimum = self._config.part_bytes_min
        for number, part in zip(numbers[:-1], parts, strict=False):
            if part.size < minimum:
                raise PartTooSmall(
                    f"part {number} has {part.size} bytes: "
                    f"every part except the last needs at least {minimum} bytes",
                    number=number,
                    size=part.size,
                    minimum=minimum,
                )
        size = sum(part.size for part in parts)
        self._check_size(size)
        return size

    def _check_whole(self, reader: Reader, upload_id: str, number: int, size: int) -> None:
        """Raises `TooLarge` if all parts, with a new one of `size` bytes, exceed the maximum size.

        An existing part with the same number does not count, because the new part replaces it.
        """
        if self._config.max_object_size:
            self._check_size(size + reader.part_bytes(upload_id, excluding=number))

    def _check_size(self, size: int) -> None:
        if self._config.max_object_size and size > self._config.max_object_size:
            raise TooLarge(
                "the size of the object in bytes", size=size, limit=self._config.max_object_size
            )


def require_upload(reader: Reader, bucket: str, key: str, upload_id: str) -> UploadInfo:
    require_bucket(reader, bucket)
    row = reader.upload(upload_id)
    if row is None or (row.bucket, row.key) != (bucket, key):
        raise NoSuchUpload(f"{bucket}/{shown(key)}: upload {shown(upload_id)} does not exist")
    return upload_info(row)


def _named_parts(
    reader: Reader,
    upload: UploadInfo,
    parts: Sequence[NamedPart],
    decoded: Mapping[bytes, Manifest],
) -> list[Manifest]:
    """Returns the manifests of the listed parts.

    Raises `BadPart` if a part was not uploaded or has a different ETag or checksum. `decoded` has
    the manifests that were decoded in advance, by their encoded form.
    """
    rows = {row.number: row for row in all_parts(reader, upload.upload_id)}
    manifests = []
    for part in parts:
        row = rows.get(part.number)
        if row is None or row.etag != part.etag.strip('"'):
            raise BadPart(
                f"part {part.number} was not uploaded, or its ETag is not {shown(part.etag)}"
            )
        manifest = decoded.get(row.chunks) or part_manifest(row)
        if part.checksum is not None and part.checksum not in manifest.checksums:
            raise BadPart(
                f"the {part.checksum.algorithm.value} of part {part.number} "
                f"is not {shown(part.checksum.value)}"
            )
        manifests.append(manifest)
    return manifests


def _whole_checksum(upload: UploadInfo, parts: Sequence[Manifest]) -> tuple[Checksum, ...]:
    """Computes the object's checksum from the checksums of its parts.

    Uses the algorithm of the upload, or CRC64NVME if it has none. The result is empty if a part has
    no checksum with that algorithm.
    """
    algorithm = upload.algorithm or Algorithm.CRC64NVME
    matching = [
        next((checksum for checksum in part.checksums if checksum.algorithm is algorithm), None)
        for part in parts
    ]
    checksums = [checksum for checksum in matching if checksum is not None]
    if len(checksums) != len(parts):
        return ()
    if upload.is_composite:
        return (digests.composite(algorithm, checksums),)
    sizes = [part.size for part in parts]
    return (digests.combined(algorithm, zip(checksums, sizes, strict=True)),)


def _check_kind(algorithm: Algorithm, *, is_composite: bool) -> None:
    if is_composite and algorithm is Algorithm.CRC64NVME:
        raise InputError("a CRC64NVME checksum must cover the full object; it cannot be composite")
    if not is_composite and not digests.can_be_full(algorithm):
        raise InputError(
            f"a {algorithm.value} checksum of a multipart upload must be composite; "
            "it cannot cover the full object"
        )
