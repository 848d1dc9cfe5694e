"""Converts the messages that a task reads into files of rows and files of dead letters.

If values are stored raw, every message becomes a row. Otherwise a JSON object becomes a row, and a
null value (a tombstone) becomes a row whose fields are null; any other value becomes a dead letter.
Fields of an object that do not fit their columns are rescued: kept as text in a separate column of
the same row.

If JSON values have fields that the table does not have and the table may evolve, the table is
extended before the Arrow batch is written; open files, which have the old schema, are finished
first. Fields that still have no column are rescued. If the table may not evolve, fields without a
column are dropped.
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
_PLACE = ("topic", "partition", "offset")  # columns of a dead letter


class TaskFiles(msgspec.Struct, frozen=True):
    """The files that a task wrote, sent to the commit as JSON.

    `schema_json` is the schema of the rows. `ranges` are the ranges that the task read;
    `dead_ranges` are the parts of these ranges whose dead letters are in the files.
    """

    rows: list[WrittenFile]
    dead_letters: list[WrittenFile]
    schema_json: str
    ranges: list[LandedRange] = []
    dead_ranges: list[LandedRange] = []


class LandTask:
    """Converts and writes the messages of one task.

    Pass all batches to `take`, then call `finish`. If something fails, call `drop` to remove what
    was written.
    """

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
        self._buried: dict[str, int] = {}  # how far the dead letters of each lane are committed
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
        self.rescued_count = 0  # rows with rescued fields
        self.dead_count = 0
        self.size_bytes = 0

    def take(self, batch: pa.RecordBatch) -> None:
        self.size_bytes += batch.nbytes
        if self._landing.values == "raw":
            self._write(self._messages.columns(batch), self._messages.arrow)
            return
        values = batch.column(self._landing.value_column).to_pylist()
        documents = self._decoder.decode(values)
        if documents.with_more and self._landing.evolves:
            documents = self._settle(values, documents)
        cells = self._decoder.columns(documents)
        rescued = pa.array(documents.rescued(), pa.string())
        self.rescued_count += len(rescued) - rescued.null_count
        columns = [*self._messages.columns(batch), *cells, rescued]
        fields = arrow_schema(
            StructType([*self._decoder.schema.fields, rescue_field(self._landing)])
        )
        schema = pa.schema([*self._messages.arrow, *fields])
        if documents.errors:
            self._dead_letter(batch, documents)
            valid_rows = [index for index in range(len(values)) if index not in documents.errors]
            columns = [column.take(pa.array(valid_rows, pa.int64())) for column in columns]
        self._write(columns, schema)

    def finish(self) -> TaskFiles:
        """Completes and stores all files, and returns them for the commit."""
        self._finish_rows()
        dead = [] if self._dead_files is None else self._dead_files.finish()
        dead_ranges = [
            msgspec.structs.replace(
                landed, start=max(landed.start, self._buried.get(landed.lane, 0))
            )
            for landed in self._ranges
        ]
        dead_ranges = [landed for landed in dead_ranges if dead and landed.start < landed.end]
        return TaskFiles(self._written, dead, self._schema.json(), self._ranges, dead_ranges)

    def drop(self) -> None:
        """Removes the files that were written, as far as possible."""
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

    def _dead_letter(self, batch: pa.RecordBatch, documents: Documents) -> None:
        if self._dead_files is None:
            schema = self._dead_target.agree(spark_schema(DEAD_LETTER), is_given=False)
            self._dead_files = self._dead_target.open_files(schema)
            self._buried = self._dead_target.landed(
                [landed.lane for landed in self._ranges if landed.lane]
            )
        errors = {index: text[:ERROR_CHARACTERS_MAX] for index, text in documents.errors.items()}
        letters = self._messages.dead_letters(batch, errors)
        self.dead_count += len(errors)
        letters = self._not_buried(letters)
        if letters.num_rows:
            self._dead_files.write(letters)

    def _not_buried(self, letters: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the dead letters that the table of dead letters does not have yet.

        It has some of them if an earlier run died between its commit of dead letters and its commit
        of rows.
        """
        firsts = {
            (landed.name, landed.number): self._buried[landed.lane]
            for landed in self._ranges
            if landed.lane in self._buried
        }
        if not firsts:
            return letters
        positions = zip(*(letters.column(name).to_pylist() for name in _PLACE), strict=True)
        return letters.filter(
            pa.array(
                [offset >= firsts.get((name, number), 0) for name, number, offset in positions]
            )
        )

    def _settle(self, values: list[bytes | None], documents: Documents) -> Documents:
        """Adds columns to the table for unknown fields of the documents, and decodes the documents
        again.

        Fields that still have no column are rescued.
        """
        shape, objects = Shape(), {}
        for index in documents.with_more:
            value = values[index]
            assert value is not None, "null has no fields"
            try:
                objects[index] = generic(value)
            except BadDocument as error:  # in a part that the decoder skipped
                documents.errors[index], documents.objects[index] = str(error), None
                continue
            shape.add_value(objects[index])
        if self._grow(shape.struct()):
            repeated = self._decoder.decode(values)
            repeated.errors.update(documents.errors)
            documents = repeated
        for index, document in objects.items():
            if index not in documents.errors:
                documents.rescue(index, left_over(document, self._decoder.schema))
        return documents

    def _grow(self, requested: StructType) -> bool:
        """Adds the requested columns to the table, unless it would have too many columns.

        Returns whether the table now has columns that this task did not know.
        """
        allowed = StructType(
            [field for field in requested.fields if field.name.lower() not in self._taken]
        )
        schema = extended(self._schema, allowed)
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
        """Returns a decoder for those columns of the table that come from JSON values.

        If the table may not evolve and a schema is given, only for the columns of that schema.
        """
        fields = [field for field in self._schema.fields if field.name.lower() not in self._taken]
        if not self._landing.evolves and self._landing.schema_json:
            names = given_schema(self._landing).names
            fields = [field for field in fields if field.name in names]
        if self._landing.values == "raw":
            fields = []
        return JsonDecoder(StructType(fields), lists_extra=self._landing.evolves)


def given_schema(landing: Landing) -> StructType:
    """Returns the configured or sampled schema of JSON values, or a schema without fields if there
    is none.
    """
    if not landing.schema_json:
        return StructType([])
    schema: StructType = StructType.fromJson(msgspec.json.decode(landing.schema_json))
    return schema


def first_schema(landing: Landing, messages: MessageRows) -> StructType:
    """Returns the schema of a new table: the columns that describe the message and, unless values
    are stored raw, the fields of the JSON values and the column for rescued fields.
    """
    rescue = [] if landing.values == "raw" else [rescue_field(landing)]
    return StructType([*messages.schema.fields, *given_schema(landing).fields, *rescue])


def rescue_field(landing: Landing) -> StructField:
    """Returns the column for rescued fields, which holds a JSON object as text."""
    return StructField(f"{landing.prefix}rescued", StringType())


def taken_names(landing: Landing, messages: MessageRows) -> frozenset[str]:
    """Returns the column names that fields of JSON values cannot use, in lower case.

    These are the columns that describe the message, and the column for rescued fields.
    """
    names = [*messages.schema.names, rescue_field(landing).name]
    return frozenset(name.lower() for name in names)
