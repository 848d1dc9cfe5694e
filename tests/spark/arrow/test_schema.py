"""What a source declares to Spark and what its batches have are the same, to Spark's own eyes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from lakebed.spark.arrow import messages, records
from lakebed.spark.arrow.columns import Fields
from tests.spark.arrow.batch_runs import packed, plain, read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HEADER = StructType([StructField("name", StringType()), StructField("value", BinaryType())])
MESSAGE: dict[str, DataType] = {
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "key": BinaryType(),
    "value": BinaryType(),
    "headers": ArrayType(HEADER),
}
RECORD: dict[str, DataType] = {
    "log": StringType(),
    "record_id": LongType(),
    "segment": IntegerType(),
    "timestamp": TimestampType(),
    "timestamp_ns": LongType(),
    "ext_id": LongType(),
    "payload": BinaryType(),
}
BOTH = pytest.mark.parametrize(
    ("fields", "types"), [(messages.FIELDS, MESSAGE), (records.FIELDS, RECORD)]
)


def struct(types: dict[str, DataType], names: list[str]) -> StructType:
    return StructType([StructField(name, types[name]) for name in names])


@BOTH
def test_the_arrow_schema_is_the_one_that_spark_makes(
    fields: Fields, types: dict[str, DataType]
) -> None:
    assert list(fields.names) == list(types)
    for names in (list(types), ["timestamp"], list(reversed(types))):
        wanted = to_arrow_schema(struct(types, names), timezone="UTC")
        assert fields.schema(names).equals(wanted)


@BOTH
def test_the_ddl_says_the_same(fields: Fields, types: dict[str, DataType]) -> None:
    wanted = ", ".join(f"{name} {kind.simpleString()}" for name, kind in types.items())
    assert fields.ddl() == wanted
    assert fields.ddl(["timestamp"]) == "timestamp timestamp"


@pytest.mark.spark
@BOTH
def test_spark_reads_the_ddl_so(
    spark: SparkSession, fields: Fields, types: dict[str, DataType]
) -> None:
    assert spark.createDataFrame([], fields.ddl()).schema == struct(types, list(types))


@pytest.mark.spark
def test_spark_takes_the_batches_of_a_source(spark: SparkSession) -> None:
    from pyspark.sql.datasource import DataSource, DataSourceReader

    values = [b"first", None, b""]
    headers: Any = [[("name", b"v"), ("null", None)], [], [("name", b"")]]
    written = [packed(values, keys=[b"k", b"", None], headers=headers), plain(b"last")]
    batches = read(written)
    ddl = messages.FIELDS.ddl()
    found = list(messages.record_batches(batches, topic="orders", partition=3))

    class Reader(DataSourceReader):
        def read(self, partition: object) -> Any:
            return iter(found)

    class Source(DataSource):
        @classmethod
        def name(cls) -> str:
            return "lakebed_arrow_test"

        def schema(self) -> str:
            return ddl

        def reader(self, schema: StructType) -> DataSourceReader:
            return Reader()

    spark.dataSource.register(Source)
    rows = spark.read.format("lakebed_arrow_test").load().orderBy("offset").collect()
    assert [(row.topic, row.partition, row.offset) for row in rows] == [
        ("orders", 3, offset) for offset in range(50, 54)
    ]
    assert [row.value and bytes(row.value) for row in rows] == [b"first", None, b"", b"last"]
    assert [row.key and bytes(row.key) for row in rows] == [b"k", b"", None, None]
    assert [[(h.name, h.value and bytes(h.value)) for h in row.headers] for row in rows] == [
        [("name", b"v"), ("null", None)],
        [],
        [("name", b"")],
        [],
    ]
