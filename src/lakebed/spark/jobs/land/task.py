"""What a task makes of the messages it reads: files of rows, and files of dead letters.

A JSON value is a row if it is an object. What of it fits no column is rescued, as text, in a column
of its own in the same row; a value that is no object is a dead letter.

The rows of an Arrow batch are made at once. Where JSON values have fields that the table lacks, the
table gets them first; files that are open are finished then, for they have the schema of before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
from pyspark.sql.types import StringType, StructField, StructType

from lakebed.spark.jobs.land.json_decoder import BadDocument, Documents, JsonDecoder, generic
from lakebed.spark.jobs.land.landed_range import LandedRange
from lakebed.spark.jobs.land.rows import DEAD_LETTER, MessageRows, spark_schema
from lakebed.spark.jobs.land.shapes import Shape, extended, leaf_count, left_over
from lakebed.spark.tables.files import TableFiles, WrittenFile
from lakebed.spark.tables.schemas import arrow_schema

if TYPE_CHECKING:
    from lakebed.spark.jobs.land.config import Landing
    from lakebed.spark.jobs.land.target import Target

ERROR_CHARACTERS_MAX = 1000
_PLACE = ("topic", "partition", "offset")  # of a dead letter


class TaskFiles(msgspec.Struct, frozen=True):
    """What a task wrote. It travels to the commit as JSON; `schema_json` is that of the rows.

    `ranges` are what it read, and `dead_ranges` those of them whose dead letters are in its files.
    """

    rows: list[WrittenFile]
    dead_letters: list[WrittenFile]
    schema_json: str
    ranges: list[LandedRange] = []
    dead_ranges: list[LandedRange] = []


class LandTask:
    """Of one task. Give it all batches, then `finish`; or `drop` what was written."""

    def __init__(
        self,
        landing: Landing,
        messages: MessageRows,
        rows: Target,
        dead_letters: Target,
        ranges: Sequence[LandedRange] = (),
    ) -> None:
        self._landing = landing
        self._ranges = list(ranges)
        self._buried: dict[str, int] = {}  # how far the table of dead letters had each lane
        self._messages = messages
        self._target = rows
        self._dead_target = dead_letters
        self._schema = rows.schema() or rows.agree(first_schema(landing, messages), is_given=False)
        self._taken = taken_names(landing, messages)
        self._decoder = self._new_decoder()
        self._files: TableFiles | None = None
        self._dead_files: TableFiles | None = None
        self._written: list[WrittenFile] = []
        self.row_count = 0
        self.rescued_count = 0  # rows with something in their rescue column
        self.dead_count = 0
        self.size_bytes = 0

    def take(self, batch: pa.RecordBatch) -> None:
        self.size_bytes += batch.nbytes
        if self._landing.values == "raw":
            self._write(self._messages.columns(batch), self._messages.arrow)
            return
        values = batch.column(self._landing.value_column).to_pylist()
        found = self._decoder.decode(values)
        if found.with_more and self._landing.evolves:
            found = self._settle(values, found)
        cells = self._decoder.columns(found)
        rescued = pa.array(found.rescued(), pa.string())
        self.rescued_count += len(rescued) - rescued.null_count
        columns = [*self._messages.columns(batch), *cells, rescued]
        fields = arrow_schema(
            StructType([*self._decoder.schema.fields, rescue_field(self._landing)])
        )
        schema = pa.schema([*self._messages.arrow, *fields])
        if found.errors:
            self._dead_letter(batch, found)
            kept = [index for index in range(len(values)) if index not in found.errors]
            columns = [column.take(pa.array(kept, pa.int64())) for column in columns]
        self._write(columns, schema)

    def finish(self) -> TaskFiles:
        """All files, complete and stored."""
        self._finish_rows()
        dead = [] if self._dead_files is None else self._dead_files.finish()
        dead_ranges = [
            msgspec.structs.replace(one, start=max(one.start, self._buried.get(one.lane, 0)))
            for one in self._ranges
        ]
        dead_ranges = [one for one in dead_ranges if dead and one.start < one.end]
        return TaskFiles(self._written, dead, self._schema.json(), self._ranges, dead_ranges)

    def drop(self) -> None:
        """What was written, as far as it can be done."""
        for files in (self._files, self._dead_files):
            if files is not None:
                files.remove()
        self._target.remove(self._written)

    def _write(self, columns: list[pa.Array], schema: pa.Schema) -> None:
        rows = pa.RecordBatch.from_arrays(columns, schema=schema)
        if not rows.num_rows:
            return
        if self._files is None:
            self._files = self._target.open_files(self._schema)
        self._files.write(rows)
        self.row_count += rows.num_rows

    def _dead_letter(self, batch: pa.RecordBatch, found: Documents) -> None:
        if self._dead_files is None:
            schema = self._dead_target.agree(spark_schema(DEAD_LETTER), is_given=False)
            self._dead_files = self._dead_target.open_files(schema)
            self._buried = self._dead_target.landed([one.lane for one in self._ranges if one.lane])
        errors = {index: text[:ERROR_CHARACTERS_MAX] for index, text in found.errors.items()}
        letters = self._messages.dead_letters(batch, errors)
        self.dead_count += len(errors)
        letters = self._not_buried(letters)
        if letters.num_rows:
            self._dead_files.write(letters)

    def _not_buried(self, letters: pa.RecordBatch) -> pa.RecordBatch:
        """Without those that the table has already: a run may have died after it committed dead
        letters, and before it committed the rows."""
        firsts = {
            (one.name, one.number): self._buried[one.lane]
            for one in self._ranges
            if one.lane in self._buried
        }
        if not firsts:
            return letters
        places = zip(*(letters.column(one).to_pylist() for one in _PLACE), strict=True)
        return letters.filter(
            pa.array([offset >= firsts.get((name, number), 0) for name, number, offset in places])
        )

    def _settle(self, values: list[bytes | None], found: Documents) -> Documents:
        """Documents that have more than the table: let it grow, and decode them again."""
        shape, documents = Shape(), {}
        for index in found.with_more:
            value = values[index]
            assert value is not None, "null has no fields"
            try:
                documents[index] = generic(value)
            except BadDocument as error:  # within what was passed over
                found.errors[index], found.objects[index] = str(error), None
                continue
            shape.add_value(documents[index])
        if self._grow(shape.struct()):
            again = self._decoder.decode(values)
            again.errors.update(found.errors)
            found = again
        for index, document in documents.items():
            if index not in found.errors:
                found.rescue(index, left_over(document, self._decoder.schema))
        return found

    def _grow(self, wanted: StructType) -> bool:
        """Whether the table has more columns than this task knew."""
        free = StructType([one for one in wanted.fields if one.name.lower() not in self._taken])
        schema = extended(self._schema, free)
        if schema == self._schema or leaf_count(schema) > self._landing.columns_max:
            return False
        self._finish_rows()
        self._schema = self._target.agree(schema, is_given=False)
        self._decoder = self._new_decoder()
        return True

    def _finish_rows(self) -> None:
        if self._files is not None:
            self._written = self._written + self._files.finish()
        self._files = None

    def _new_decoder(self) -> JsonDecoder:
        """Of the table's columns, but for those of the message."""
        fields = [one for one in self._schema.fields if one.name.lower() not in self._taken]
        if not self._landing.evolves and self._landing.schema_json:
            names = given_schema(self._landing).names
            fields = [one for one in fields if one.name in names]
        if self._landing.values == "raw":
            fields = []
        return JsonDecoder(StructType(fields), tells_more=self._landing.evolves)


def given_schema(landing: Landing) -> StructType:
    """Of JSON values; without columns if none is given."""
    if not landing.schema_json:
        return StructType([])
    schema: StructType = StructType.fromJson(msgspec.json.decode(landing.schema_json))
    return schema


def first_schema(landing: Landing, messages: MessageRows) -> StructType:
    """What a new table has."""
    rescue = [] if landing.values == "raw" else [rescue_field(landing)]
    return StructType([*messages.schema.fields, *given_schema(landing).fields, *rescue])


def rescue_field(landing: Landing) -> StructField:
    """The column for fields of JSON values that do not fit theirs: a JSON object."""
    return StructField(f"{landing.prefix}rescued", StringType())


def taken_names(landing: Landing, messages: MessageRows) -> frozenset[str]:
    """Of columns that fields of JSON values cannot have, in small letters."""
    names = [*messages.schema.names, rescue_field(landing).name]
    return frozenset(name.lower() for name in names)
