"""The data source `lakebed.objects`: the metadata of the object store, in several views.

    spark.read.format("lakebed.objects").option("path", root).load().where("bucket = 'photos'")
    spark.read.format("lakebed.objects").option("path", root).option("view", "chunks").load()

Options:

- `path`: the store's folder, which the tasks must share; or `endpoint`, with `accessKey`,
  `secretKey` and `caFile`: the HTTP API, which returns the same rows.
- `view`: one of the views below; `objects` by default.
- `onDamage`: what to do about a manifest that cannot be read: `fail` (the default), or `tell`,
  which returns a row with its `problem` and null in the columns of the manifest. Objects that are
  marked as damaged are normal rows with the `state` `DAMAGED`.
- `bucket`: names separated by commas; only these buckets are read.
- `prefix`: only keys that start with this text are read.
- `filters`: conditions that all rows meet, as JSON: see below and `lakebed.spark.conditions`.
- `columns`: names separated by commas; all by default.
- `partitionRows`: about how many rows (versions, in the view `chunks`) a task reads; 100,000 by
  default, 20,000 for manifests and chunks. A query has at most 64 tasks, which read more if needed.

`buckets`, by name:

    bucket string, created_at timestamp, versioning string

`objects`, the newest versions, without delete markers:

    bucket string, key string, version_id string, is_null boolean, state string, etag string, size
    bigint, content_type string, modified_at timestamp, hlc string, site_id string

`versions`, all versions and delete markers (`state` `DELETED`); a bucket without versioning has
null versions:

    bucket string, key string, version_id string, is_null boolean, state string, etag string, size
    bigint, content_type string, modified_at timestamp, hlc string, site_id string, is_latest
    boolean

`manifests`, the same with the fields of the manifest:

    bucket string, key string, version_id string, is_null boolean, state string, etag string, size
    bigint, content_type string, modified_at timestamp, hlc string, site_id string, is_latest
    boolean, cache_control string, content_disposition string, content_encoding string,
    content_language string, expires string, metadata map<string,string>, tags map<string,string>,
    checksums array<struct<algorithm:string,value:string,is_composite:boolean>>, part_sizes
    array<bigint>, chunk_count int, manifest_bytes bigint, file_state string, problem string

`chunks`, of all versions, and of the parts of unfinished uploads (these have an `upload_id` and no
`version_id`); `offset` is the position of the data in the segment's file:

    bucket string, key string, version_id string, state string, upload_id string, part_number int,
    chunk_index int, object_offset bigint, segment_id string, offset bigint, length int, hash
    binary, problem string

`version_id` always has 32 hex digits, even for null versions (`is_null`). Within a task, rows are
sorted by bucket and key, the newest version of a key first; in the view `chunks`, the chunks of
unfinished uploads come after all others of a range of keys.

With `filters` on `bucket` (=, in) and `key` (=, in, startswith, comparisons), other keys are not
read. With a filter on `segment_id` (=, in), all manifests of the keys are read, but only chunks in
these segments are returned. Filters on other columns are applied row by row.

Tasks read ranges of keys with about equally many rows. Chunks are divided by the keys of their
versions too, because there is no index from segments to manifests; to group them by segment, use
`repartition("segment_id")`. Rows are read in pages. Each page shows the state of one moment, and
the writer may change rows between two pages: see `object_rows`.
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
    """The parsed options of a read of `lakebed.objects`."""

    backend: Backend
    view: str
    reports_damage: bool
    columns: tuple[str, ...]
    partition_rows: int
    selection: Selection
    filters: tuple[Filter, ...]

    @property
    def fields(self) -> Fields:
        return VIEWS[self.view]


class RangeSplit(InputPartition):
    """The ranges of keys that one task reads."""

    def __init__(self, ranges: Sequence[KeyRange]) -> None:
        super().__init__(None)
        self.ranges = list(ranges)


class ObjectsSource(DataSource):
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
        """Applies filters: as far as possible by reading fewer keys, and otherwise row by row."""
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
        with open_objects(request.backend) as backend:
            splits = backend.split(
                self._selection.ranges([bucket.name for bucket in backend.buckets()]),
                only_current=request.view == "objects",
                rows_max=request.partition_rows,
            )
        return [RangeSplit(ranges) for ranges in splits] or [RangeSplit([])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RangeSplit), "not a partition of this source"
        with open_objects(self._request.backend) as backend:
            if self._request.view == "buckets":
                yield from self._bucket_batches(backend.buckets())
            for keys in partition.ranges:
                for batch in self._batches(backend, keys):
                    rows = kept(batch, self.left)
                    if rows.num_rows:
                        yield from parts(rows, ROWS_MAX)

    def _bucket_batches(self, infos: Iterable[BucketInfo]) -> Iterator[pa.RecordBatch]:
        names = self._selection.buckets
        buckets = [info for info in infos if names is None or info.name in names]
        if buckets:
            rows = kept(bucket_batch(buckets, self._request.columns), self.left)
            if rows.num_rows:
                yield from parts(rows, ROWS_MAX)

    def _batches(self, backend: ObjectBackend, keys: KeyRange) -> Iterator[pa.RecordBatch]:
        columns = self._request.columns
        match self._request.view:
            case "objects":
                for rows in backend.objects(keys):
                    yield object_batch(rows, columns)
            case "versions":
                for page in backend.versions(keys):
                    yield version_batch(page, columns)
            case "manifests":
                for stored in backend.manifests(keys):
                    self._check(version.problem for version in stored)
                    yield manifest_batch(stored, columns)
            case "chunks":
                for owners in self._owners(backend, keys):
                    yield chunk_batch(owners, columns, segments=self._selection.segments)

    def _owners(self, backend: ObjectBackend, keys: KeyRange) -> Iterator[list[Owner]]:
        """Yields the owners of chunks in groups whose chunks fill one batch."""
        held: list[Owner] = []
        row_count = 0
        for owner in _all_owners(backend, keys):
            self._check([owner.problem])
            held.append(owner)
            row_count += 1 if owner.manifest is None else len(owner.manifest.chunks)
            if row_count >= ROWS_MAX:
                yield held
                held, row_count = [], 0
        if held:
            yield held

    def _check(self, problems: Iterable[str | None]) -> None:
        if not self._request.reports_damage:
            for problem in problems:
                if problem is not None:
                    raise Corrupt(problem)


def request_of(values: Mapping[str, Any]) -> Request:
    """Parses the options of the data source. Raises `BadConfig` if they are invalid."""
    options = Options(NAME, values, known=_KNOWN)
    view = options.choice("view", tuple(VIEWS), default="objects")
    return Request(
        backend=backend_of(options),
        view=view,
        reports_damage=options.choice("onDamage", ("fail", "tell"), default="fail") == "tell",
        columns=columns_of(options, VIEWS[view]),
        partition_rows=options.number("partitionRows", minimum=1) or PARTITION_ROWS.get(view, 1),
        selection=selection_of(
            buckets=options.names("bucket"), prefix=given_text(values, "prefix")
        ),
        filters=conditions_of(options, VIEWS[view].schema),
    )


def given_text(values: Mapping[str, Any], name: str) -> str:
    """Returns the text of an option with its spaces, which are significant in a key.

    `name` is in lower case. The result is empty if the option is missing.
    """
    return next((str(text) for option, text in values.items() if option.lower() == name), "")


def _all_owners(backend: ObjectBackend, keys: KeyRange) -> Iterator[Owner]:
    for stored in backend.manifests(keys):
        yield from owners_of_versions(stored)
    for parts_page in backend.parts(keys):
        yield from owners_of_parts(parts_page)
