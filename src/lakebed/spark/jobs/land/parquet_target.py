"""Plain Parquet files that rows are landed in: below the table's prefix there is nothing else.

What belongs to the table but is no row of it is in the same bucket, below `_land/<prefix>/`:

    schema.json                     the columns, which tasks agree by
    staged/…                        files of tasks, before their commit
    commits/<query>/<batch>.json    which staged file of a batch becomes which file of the table,
                                    and how far each lane is landed with it
    landed.json                     the same of all lanes, and the last batch that it counts

A commit is this: the batch's document is stored, unless there is one; then every file that it names
is copied to its place; then the staged ones are removed. A batch that Spark repeats finds the
document and goes on with what that says; its own files are removed. So every row is there once,
whatever was killed when.

What does not hold, for plain Parquet has no such thing: a reader that lists the files while a
commit copies them may see some files of the batch and not yet the others, and so for longer if the
query was killed just then and is not started again. No file is ever seen in part, and none twice.
Two jobs that land
the same topic into one table at the same time may land messages twice. Who must see whole batches
reads the files that the documents in `commits` name, or a Delta table.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from lakebed.base.clock import NS_PER_S, Clock
from lakebed.base.errors import Busy, DataError, InputError
from lakebed.spark.jobs.land.shapes import extended
from lakebed.spark.jobs.land.target import files_of
from lakebed.spark.tables.commit import Advance, Transaction, are_made
from lakebed.spark.tables.files import TableFiles, WrittenFile, remove_files
from lakebed.spark.tables.location import TableLocation
from lakebed.spark.tables.partition_values import folder_of
from lakebed.spark.tables.schemas import (
    as_table_schema,
    check_partitioning,
    evolved,
)
from lakebed.spark.tables.upkeep import check_retention

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from lakebed.spark.jobs.land.config import Landing

FOLDER: Final = "_land"
_LANDED: Final = "landed.json"
ATTEMPTS_MAX: Final = 20
_S_PER_HOUR: Final = 3600


class _Schema(msgspec.Struct, frozen=True):
    schema_json: str
    partition_columns: tuple[str, ...]


class _File(msgspec.Struct, frozen=True):
    staged: str  # below `staged`
    path: str  # below the table's prefix
    rows: int
    size_bytes: int


class _Commit(msgspec.Struct, frozen=True):
    files: list[_File]
    lanes: dict[str, int] = {}


class _Landed(msgspec.Struct, frozen=True):
    lanes: dict[str, int] = {}
    batches: dict[str, int] = {}  # the last one of each query that is counted

    def with_commit(self, query: str, batch: int, commit: _Commit) -> _Landed:
        ends = {lane: max(at, self.lanes.get(lane, at)) for lane, at in commit.lanes.items()}
        last = max(batch, self.batches.get(query, batch))
        return _Landed({**self.lanes, **ends}, {**self.batches, query: last})


class ParquetTarget:
    """A `Target`."""

    def __init__(
        self,
        place: TableLocation,
        landing: Landing,
        partition_columns: tuple[str, ...],
        *,
        clock: Clock,
    ) -> None:
        self._clock = clock
        self._place = place
        self._landing = landing
        self._partition_columns = partition_columns
        self._own = f"{FOLDER}/{place.prefix}"
        self._staged = place.with_table(f"{place.bucket}/{self._own}/staged")
        self._objects = place.object_store()
        self._counts_all = False  # whether every commit was counted when this one began

    def schema(self) -> StructType | None:
        found = self._agreed()
        return None if found is None else _schema_of(found[0])

    def agree(self, wanted: StructType, *, is_given: bool) -> StructType:
        wanted = as_table_schema(wanted)
        for _ in range(ATTEMPTS_MAX):
            found = self._agreed()
            if found is None:
                check_partitioning(wanted, self._partition_columns)
                schema, mode = wanted, "create"
            else:
                there = _schema_of(found[0])
                if found[0].partition_columns != self._partition_columns:
                    raise InputError(f"{self._place} is partitioned otherwise")
                join = evolved(there, wanted, may_add=True) if is_given else extended(there, wanted)
                if join == there:
                    return there
                schema, mode = join, found[1]
            document = _Schema(schema.json(), self._partition_columns)
            if self._put("schema.json", document, mode):
                return schema
        raise Busy(f"{self._place}: others changed the schema {ATTEMPTS_MAX} times meanwhile")

    def open_files(self, schema: StructType) -> TableFiles:
        return files_of(
            self._staged,
            self._landing,
            schema,
            partition_columns=self._partition_columns,
            clock=self._clock,
        )

    def landed(self, lanes: Collection[str]) -> dict[str, int]:
        if not self._counts_all:
            self._count_all()
        found = self._get(_LANDED, _Landed)
        known = {} if found is None else found[0].lanes
        return {lane: known[lane] for lane in lanes if lane in known}

    def commit(
        self,
        files: Sequence[WrittenFile],
        schema: StructType,  # noqa: ARG002 - the files have it
        transaction: Transaction,
        advances: Sequence[Advance] = (),
    ) -> None:
        query, batch = transaction.application, transaction.number
        name = f"commits/{query}/{batch:012d}.json"
        lanes = {one.application: one.end for one in advances}
        ours = _Commit(list(self._named(files, transaction)), lanes)
        if self._get(name, _Commit) is None and self._is_landed(advances):
            remove_files(self._staged, [one.path for one in files])
            return
        if not self._put(name, ours, "create"):
            theirs = self._get(name, _Commit)
            if theirs is None:
                raise DataError("a commit that was there is gone", path=f"{self._own}/{name}")
            kept = {one.staged for one in theirs[0].files}
            remove_files(self._staged, [one.path for one in files if one.path not in kept])
            ours = theirs[0]
        self._count(query, batch, ours)
        self._publish(ours)

    def remove(self, files: Sequence[WrittenFile]) -> None:
        remove_files(self._staged, [one.path for one in files])

    def optimize(self) -> int:
        raise InputError(f"{self._place} has no log: only Delta tables can be optimized")

    def vacuum(self, *, retention_h: float) -> int:
        """Of staged files, those that a killed task left; those of the table are all needed, and
        those of a commit that was begun are, too."""
        check_retention(retention_h)
        before_s = self._clock.wall_ns() / NS_PER_S - retention_h * _S_PER_HOUR
        found = [
            one["path"].removeprefix(f"{self._staged.prefix}/")
            for page in self._objects.list(self._staged.prefix)
            for one in page
            if one["last_modified"].timestamp() < before_s
        ]
        needed = self._begun()  # now: what is committed from here on is younger
        found = [path for path in found if path not in needed]
        remove_files(self._staged, found)
        return len(found)

    def _begun(self) -> set[str]:
        """The files of each query's last commit: it alone may not be finished."""
        last: dict[str, str] = {}
        for query, name in self._commit_names():
            last[query] = max(name, last.get(query, ""))
        commits = [self._get(f"commits/{query}/{name}", _Commit) for query, name in last.items()]
        return {file.staged for one in commits if one is not None for file in one[0].files}

    def _commit_names(self) -> Iterator[tuple[str, str]]:
        prefix = f"{self._own}/commits"
        for page in self._objects.list(prefix):
            for one in page:
                query, _, name = one["path"].removeprefix(f"{prefix}/").rpartition("/")
                yield query, name

    def _is_landed(self, advances: Sequence[Advance]) -> bool:
        known = self.landed([one.application for one in advances])
        return are_made(advances, known.get, self._place)

    def _count_all(self) -> None:
        """Commits that were decided by a run that died before it had counted them."""
        found = self._get(_LANDED, _Landed)
        counted = {} if found is None else found[0].batches
        for query, name in self._commit_names():
            batch = int(name.removesuffix(".json"))
            if batch > counted.get(query, -1):
                commit = self._get(f"commits/{query}/{name}", _Commit)
                if commit is not None:
                    self._count(query, batch, commit[0])
        self._counts_all = True

    def _count(self, query: str, batch: int, commit: _Commit) -> None:
        for _ in range(ATTEMPTS_MAX):
            found = self._get(_LANDED, _Landed)
            before = _Landed() if found is None else found[0]
            after = before.with_commit(query, batch, commit)
            if after == before or self._put(_LANDED, after, found[1] if found else "create"):
                return
        raise Busy(f"{self._place}: others landed something {ATTEMPTS_MAX} times meanwhile")

    def _publish(self, commit: _Commit) -> None:
        """Again, if it was begun before. Staged files are gone only when all are copied."""
        import obstore

        for one in commit.files:
            try:
                obstore.copy(
                    self._objects,
                    f"{self._staged.prefix}/{one.staged}",
                    f"{self._place.prefix}/{one.path}",
                )
            except FileNotFoundError:
                continue
        remove_files(self._staged, [one.staged for one in commit.files])

    def _named(self, files: Sequence[WrittenFile], transaction: Transaction) -> Iterable[_File]:
        for index, one in enumerate(files):
            name = f"{transaction.application}-{transaction.number:012d}-{index:05d}"
            path = f"{folder_of(one.partition)}{name}.{self._landing.compression}.parquet"
            yield _File(one.path, path, one.rows, one.size_bytes)

    def _agreed(self) -> tuple[_Schema, Any] | None:
        return self._get("schema.json", _Schema)

    def _get(self, name: str, kind: type[Any]) -> tuple[Any, Any] | None:
        """With what an update of it is conditional on."""
        import obstore

        path = f"{self._own}/{name}"
        try:
            found = obstore.get(self._objects, path)
        except FileNotFoundError:
            return None
        meta = found.meta
        try:
            document = msgspec.json.decode(bytes(found.bytes()), type=kind)
        except msgspec.DecodeError as error:
            raise DataError(f"no such document: {error}", path=path) from error
        return document, {"e_tag": meta["e_tag"], "version": meta["version"]}

    def _put(self, name: str, document: msgspec.Struct, mode: Any) -> bool:
        """Whether it was stored, or somebody else was faster."""
        import obstore
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        try:
            obstore.put(
                self._objects,
                f"{self._own}/{name}",
                msgspec.json.encode(document),
                mode=mode,
                use_multipart=False,
            )
        except (AlreadyExistsError, PreconditionError):
            return False
        return True


def _schema_of(document: _Schema) -> StructType:
    from pyspark.sql.types import StructType

    schema: StructType = StructType.fromJson(msgspec.json.decode(document.schema_json))
    return schema
