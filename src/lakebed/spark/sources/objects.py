"""`lakebed.objects`: what is in the object store: buckets, objects, versions, manifests, chunks.

    spark.read.format("lakebed.objects").option("path", root).load().where("bucket = 'photos'")
    spark.read.format("lakebed.objects").option("path", root).option("view", "chunks").load()

Options:

- `path`: the store's folder, which the tasks must share; or `endpoint`, with `accessKey`,
  `secretKey` and `caFile`: the HTTP API, which tells the same.
- `view`: see below; `objects` if it is not given.
- `onDamage`: of a manifest that cannot be read: `fail` (the default), or `tell` it as a row with
  its `problem`, and nulls for what it would tell. Objects that are marked as damaged are rows like
  others, with the `state` `DAMAGED`.
- `bucket`: some of them, between commas, and `prefix`: what keys begin with; nothing else is read.
- `filters`: conditions that all rows meet, as JSON: see below and `lakebed.spark.conditions`.
- `columns`: some of them, between commas. `partitionRows`: about how many rows (of chunks, how
  many versions) a task has; 100,000, of manifests and chunks 20,000.

`buckets`, by name:

    bucket string, created_at timestamp, versioning string

`objects`, the newest versions, but for delete markers:

    bucket string, key string, version_id string, is_null boolean, state string, etag string, size
    bigint, content_type string, modified_at timestamp, hlc string, site_id string

`versions`, all of them, and delete markers (`state` `DELETED`); what a bucket without versioning
has is null versions:

    bucket string, key string, version_id string, is_null boolean, state string, etag string, size
    bigint, content_type string, modified_at timestamp, hlc string, site_id string, is_latest
    boolean

`manifests`, the same with what only the manifest tells:

    bucket string, key string, version_id string, is_null boolean, state string, etag string, size
    bigint, content_type string, modified_at timestamp, hlc string, site_id string, is_latest
    boolean, cache_control string, content_disposition string, content_encoding string,
    content_language string, expires string, metadata map<string,string>, tags map<string,string>,
    checksums array<struct<algorithm:string,value:string,is_composite:boolean>>, part_sizes
    array<bigint>, chunk_count int, manifest_bytes bigint, file_state string, problem string

`chunks`, of all versions and (with an `upload_id` and no `version_id`) of parts of uploads under
way; `offset` is that of the data in its segment's file:

    bucket string, key string, version_id string, state string, upload_id string, part_number int,
    chunk_index int, object_offset bigint, segment_id string, offset bigint, length int, hash
    binary, problem string

`version_id` has 32 hex digits also where a version is null (`is_null`). Rows stand by bucket and
key, a key's newest version first, within a task.

With `filters` on `bucket` (=, in) and `key` (=, in, startswith, less or more than) other keys are
not read. With one on `segment_id` (=, in) all manifests of the keys are still read, and chunks in
other segments go no further. Those on other columns are looked at row by row.

Tasks are ranges of keys with about as many rows each. Chunks are split by the keys of their
versions too, since nothing leads from a segment to the manifests that name it: to have them by
segment, `repartition("segment_id")`. Rows are read in pages, each of one moment (`object_rows`);
between them the writer goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from lakebed.base.errors import Corrupt
from lakebed.seglake.model import BucketInfo
from lakebed.seglake.stored_pages import KeyRange
from lakebed.spark.arrow.columns import ROWS_MAX, Fields, parts
from lakebed.spark.backends import BACKEND_OPTIONS, Backend, backend_of
from lakebed.spark.conditions import OPTION, REFUSED, check_columns, conditions_of, kept
from lakebed.spark.options import Options
from lakebed.spark.sources.manifest import columns_of
from lakebed.spark.sources.object_backends import ObjectBackend, open_objects
from lakebed.spark.sources.object_columns import (
    VIEWS,
    Owner,
    bucket_batch,
    chunk_batch,
    manifest_batch,
    object_batch,
    owners_of_parts,
    owners_of_versions,
    version_batch,
)
from lakebed.spark.sources.object_ranges import Selection, selected, selection_of

NAME = "lakebed.objects"
PARTITION_ROWS = {"objects": 100_000, "versions": 100_000, "manifests": 20_000, "chunks": 20_000}
_KNOWN = (
    *BACKEND_OPTIONS,
    "view",
    "bucket",
    "prefix",
    OPTION,
    REFUSED,
    "onDamage",
    "columns",
    "partitionRows",
)


@dataclass(frozen=True, kw_only=True)
class Request:
    """What the options ask for."""

    backend: Backend
    view: str
    is_damage_told: bool
    columns: tuple[str, ...]
    partition_rows: int
    selection: Selection
    filters: tuple[Filter, ...]

    @property
    def fields(self) -> Fields:
        return VIEWS[self.view]


class RangeSplit(InputPartition):
    """Some keys of some buckets."""

    def __init__(self, ranges: Sequence[KeyRange]) -> None:
        super().__init__(None)
        self.ranges = list(ranges)


class ObjectsSource(DataSource):
    """See the module."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        request = request_of(self.options)
        return request.fields.ddl(request.columns)

    def reader(self, schema: StructType) -> ObjectsSourceReader:  # noqa: ARG002
        return ObjectsSourceReader(request_of(self.options))


class ObjectsSourceReader(DataSourceReader):
    def __init__(self, request: Request) -> None:
        self._request = request
        self._selection = request.selection
        self.left: list[Filter] = []
        self.narrow(request.filters)

    def narrow(self, filters: Sequence[Filter]) -> None:
        """Read no row that does not pass: as far as ranges of keys decide, the others by row."""
        columns = {"buckets": ["bucket"], "chunks": ["bucket", "key", "segment_id"]}
        self._selection, self.left = selected(
            filters,
            columns=columns.get(self._request.view, ["bucket", "key"]),
            within=self._selection,
        )
        check_columns(NAME, self.left, self._request.columns)

    def partitions(self) -> list[InputPartition]:
        request = self._request
        if request.view == "buckets":
            return [RangeSplit([])]
        with open_objects(request.backend) as found:
            splits = found.split(
                self._selection.ranges([one.name for one in found.buckets()]),
                only_current=request.view == "objects",
                rows_max=request.partition_rows,
            )
        return [RangeSplit(one) for one in splits] or [RangeSplit([])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RangeSplit), "a partition of somebody else"
        with open_objects(self._request.backend) as found:
            if self._request.view == "buckets":
                yield from self._bucket_batches(found.buckets())
            for one in partition.ranges:
                for batch in self._batches(found, one):
                    rows = kept(batch, self.left)
                    if rows.num_rows:
                        yield from parts(rows, ROWS_MAX)

    def _bucket_batches(self, found: Iterable[BucketInfo]) -> Iterator[pa.RecordBatch]:
        names = self._selection.buckets
        buckets = [one for one in found if names is None or one.name in names]
        if buckets:
            rows = kept(bucket_batch(buckets, self._request.columns), self.left)
            if rows.num_rows:
                yield from parts(rows, ROWS_MAX)

    def _batches(self, found: ObjectBackend, one: KeyRange) -> Iterator[pa.RecordBatch]:
        columns = self._request.columns
        match self._request.view:
            case "objects":
                for rows in found.objects(one):
                    yield object_batch(rows, columns)
            case "versions":
                for page in found.versions(one):
                    yield version_batch(page, columns)
            case "manifests":
                for stored in found.manifests(one):
                    self._check(each.problem for each in stored)
                    yield manifest_batch(stored, columns)
            case "chunks":
                for owners in self._owners(found, one):
                    yield chunk_batch(owners, columns, segments=self._selection.segments)

    def _owners(self, found: ObjectBackend, one: KeyRange) -> Iterator[list[Owner]]:
        """So many that their chunks are a batch."""
        held: list[Owner] = []
        row_count = 0
        for owner in _all_owners(found, one):
            self._check([owner.problem])
            held.append(owner)
            row_count += 1 if owner.manifest is None else len(owner.manifest.chunks)
            if row_count >= ROWS_MAX:
                yield held
                held, row_count = [], 0
        if held:
            yield held

    def _check(self, problems: Iterable[str | None]) -> None:
        if not self._request.is_damage_told:
            for problem in problems:
                if problem is not None:
                    raise Corrupt(problem)


def request_of(given: Mapping[str, Any]) -> Request:
    """`BadConfig` if the options are not what they must be."""
    options = Options(NAME, given, known=_KNOWN)
    view = options.choice("view", tuple(VIEWS), default="objects")
    return Request(
        backend=backend_of(options),
        view=view,
        is_damage_told=options.choice("onDamage", ("fail", "tell"), default="fail") == "tell",
        columns=columns_of(options, VIEWS[view]),
        partition_rows=options.number("partitionRows", minimum=1) or PARTITION_ROWS.get(view, 1),
        selection=selection_of(buckets=options.names("bucket"), prefix=given_text(given, "prefix")),
        filters=conditions_of(options, VIEWS[view].schema),
    )


def given_text(given: Mapping[str, Any], name: str) -> str:
    """As it was given, for in a key every space counts."""
    return next((str(text) for option, text in given.items() if option.lower() == name), "")


def _all_owners(found: ObjectBackend, one: KeyRange) -> Iterator[Owner]:
    for stored in found.manifests(one):
        yield from owners_of_versions(stored)
    for parts_page in found.parts(one):
        yield from owners_of_parts(parts_page)
