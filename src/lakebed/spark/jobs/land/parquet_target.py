"""A table of plain Parquet files into which the job `land` writes rows.

Only files with rows are stored below the table's prefix. Everything else is in the same bucket,
below `_land/<prefix>/`:

    schema.json                     the columns, on which the tasks agree
    staged/…                        files of tasks, before their commit
    commits/<query>/<batch>.json    which staged file of a batch becomes which file of the table,
                                    and how far the commit lands each partition or log
    landed.json                     how far each partition or log is landed, and the last batch of
                                    each query that this includes

A commit stores the batch's document unless it exists, copies every file that the document names to
its final place, and removes the staged files. A batch that Spark repeats finds the document and
completes the commit; the new files of the repeated batch are removed. So every row is there once,
even if a process is killed.

Two guarantees of a Delta table are missing:

- A reader that lists the files during a commit may see only some files of the batch. If the query
  is killed at that moment, this lasts until it is started again. But no file is ever seen
  incomplete or twice. A reader that needs whole batches should read the files that the documents in
  `commits` name, or use a Delta table.
- Two jobs that land the same topic into the same table at the same time may land messages twice.
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
    batches: dict[str, int] = {}  # the last batch of each query that is included

    def with_commit(self, query: str, batch: int, commit: _Commit) -> _Landed:
        ends = {lane: max(at, self.lanes.get(lane, at)) for lane, at in commit.lanes.items()}
        last = max(batch, self.batches.get(query, batch))
        return _Landed({**self.lanes, **ends}, {**self.batches, query: last})


class ParquetTarget:
    """A table of plain Parquet files as a target of the job `land`; implements `Target`."""

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
        self._counts_all = False  # whether `landed.json` is known to include all earlier commits

    def schema(self) -> StructType | None:
        agreed = self._agreed()
        return None if agreed is None else _schema_of(agreed[0])

    def agree(self, requested: StructType, *, is_given: bool) -> StructType:
        requested = as_table_schema(requested)
        for _ in range(ATTEMPTS_MAX):
            agreed = self._agreed()
            if agreed is None:
                check_partitioning(requested, self._partition_columns)
                schema, mode = requested, "create"
            else:
                current = _schema_of(agreed[0])
                if agreed[0].partition_columns != self._partition_columns:
                    raise InputError(
                        f"{self._place}: cannot land into this table, because it was created with "
                        "another partitioning by time"
                    )
                joined = (
                    evolved(current, requested, may_add=True)
                    if is_given
                    else extended(current, requested)
                )
                if joined == current:
                    return current
                schema, mode = joined, agreed[1]
            document = _Schema(schema.json(), self._partition_columns)
            if self._put("schema.json", document, mode):
                return schema
        raise Busy(
            f"{self._place}: other writers changed the schema during each of {ATTEMPTS_MAX} "
            "attempts; try again"
        )

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
        document = self._get(_LANDED, _Landed)
        positions = {} if document is None else document[0].lanes
        return {lane: positions[lane] for lane in lanes if lane in positions}

    def commit(
        self,
        files: Sequence[WrittenFile],
        schema: StructType,  # noqa: ARG002 - the files contain it
        transaction: Transaction,
        advances: Sequence[Advance] = (),
    ) -> None:
        query, batch = transaction.application, transaction.number
        name = f"commits/{query}/{batch:012d}.json"
        lanes = {advance.application: advance.end for advance in advances}
        commit = _Commit(list(self._named(files, transaction)), lanes)
        if self._get(name, _Commit) is None and self._is_landed(advances):
            remove_files(self._staged, [file.path for file in files])
            return
        if not self._put(name, commit, "create"):
            existing = self._get(name, _Commit)
            if existing is None:
                raise DataError(
                    "the document that describes a commit disappeared while the commit was made",
                    path=f"{self._own}/{name}",
                )
            kept = {file.staged for file in existing[0].files}
            remove_files(self._staged, [file.path for file in files if file.path not in kept])
            commit = existing[0]
        self._count(query, batch, commit)
        self._publish(commit)

    def remove(self, files: Sequence[WrittenFile]) -> None:
        remove_files(self._staged, [file.path for file in files])

    def optimize(self) -> int:
        raise InputError(
            f"{self._place}: a table of plain Parquet files cannot be optimized, only a Delta table"
        )

    def vacuum(self, *, retention_h: float) -> int:
        """Removes staged files that killed tasks left, if they are older than `retention_h` hours.

        Files of the table are never removed, nor staged files of a commit that may be unfinished.
        Returns the number of removed files.
        """
        check_retention(retention_h)
        before_s = self._clock.wall_ns() / NS_PER_S - retention_h * _S_PER_HOUR
        paths = [
            entry["path"].removeprefix(f"{self._staged.prefix}/")
            for page in self._objects.list(self._staged.prefix)
            for entry in page
            if entry["last_modified"].timestamp() < before_s
        ]
        needed = self._begun()  # read only now: later commits name younger files
        paths = [path for path in paths if path not in needed]
        remove_files(self._staged, paths)
        return len(paths)

    def _begun(self) -> set[str]:
        """Returns the staged files that the last commit of each query names.

        Earlier commits of a query are always finished.
        """
        last: dict[str, str] = {}
        for query, name in self._commit_names():
            last[query] = max(name, last.get(query, ""))
        commits = [self._get(f"commits/{query}/{name}", _Commit) for query, name in last.items()]
        return {file.staged for commit in commits if commit is not None for file in commit[0].files}

    def _commit_names(self) -> Iterator[tuple[str, str]]:
        prefix = f"{self._own}/commits"
        for page in self._objects.list(prefix):
            for entry in page:
                query, _, name = entry["path"].removeprefix(f"{prefix}/").rpartition("/")
                yield query, name

    def _is_landed(self, advances: Sequence[Advance]) -> bool:
        positions = self.landed([advance.application for advance in advances])
        return are_made(advances, positions.get, self._place)

    def _count_all(self) -> None:
        """Adds to `landed.json` the commits whose job died before it added them."""
        landed = self._get(_LANDED, _Landed)
        counted = {} if landed is None else landed[0].batches
        for query, name in self._commit_names():
            batch = int(name.removesuffix(".json"))
            if batch > counted.get(query, -1):
                commit = self._get(f"commits/{query}/{name}", _Commit)
                if commit is not None:
                    self._count(query, batch, commit[0])
        self._counts_all = True

    def _count(self, query: str, batch: int, commit: _Commit) -> None:
        for _ in range(ATTEMPTS_MAX):
            current = self._get(_LANDED, _Landed)
            before = _Landed() if current is None else current[0]
            after = before.with_commit(query, batch, commit)
            if after == before or self._put(_LANDED, after, current[1] if current else "create"):
                return
        raise Busy(
            f"{self._place}: other writers committed during each of {ATTEMPTS_MAX} attempts; "
            "try again"
        )

    def _publish(self, commit: _Commit) -> None:
        """Copies the staged files of a commit into the table, then removes the staged files.

        Staged files that are missing were copied by an earlier attempt, and are skipped.
        """
        import obstore

        for file in commit.files:
            try:
                obstore.copy(
                    self._objects,
                    f"{self._staged.prefix}/{file.staged}",
                    f"{self._place.prefix}/{file.path}",
                )
            except FileNotFoundError:
                continue
        remove_files(self._staged, [file.staged for file in commit.files])

    def _named(self, files: Sequence[WrittenFile], transaction: Transaction) -> Iterable[_File]:
        for index, file in enumerate(files):
            name = f"{transaction.application}-{transaction.number:012d}-{index:05d}"
            path = f"{folder_of(file.partition)}{name}.{self._landing.compression}.parquet"
            yield _File(file.path, path, file.rows, file.size_bytes)

    def _agreed(self) -> tuple[_Schema, Any] | None:
        return self._get("schema.json", _Schema)

    def _get(self, name: str, kind: type[Any]) -> tuple[Any, Any] | None:
        """Returns the document with this name, and the condition to pass to `_put` as `mode` to
        update it.

        Returns None if the document does not exist.
        """
        import obstore

        path = f"{self._own}/{name}"
        try:
            result = obstore.get(self._objects, path)
        except FileNotFoundError:
            return None
        meta = result.meta
        try:
            document = msgspec.json.decode(bytes(result.bytes()), type=kind)
        except msgspec.DecodeError as error:
            raise DataError(
                "not a valid JSON document of the land job, which stores it with its table: "
                f"{error}",
                path=path,
            ) from error
        return document, {"e_tag": meta["e_tag"], "version": meta["version"]}

    def _put(self, name: str, document: msgspec.Struct, mode: Any) -> bool:
        """Stores a document under this name if the condition `mode` is met. Returns whether it did.

        The condition is either that no document has this name yet, or that the stored document is
        still the one that `_get` returned. It is not met if another process changed it first.
        """
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
