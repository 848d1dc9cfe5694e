"""Questions that are answered by a process of Spark's: those of the driver may not see the S3."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from lakebed.base import errors
from lakebed.base.errors import LakebedError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


class Answer(msgspec.Struct, frozen=True):
    """`error` is the name of its class, if there was one, and `text` what it says."""

    value: Any = None
    error: str = ""
    text: str = ""


def call_on_executor(spark: SparkSession, question: Callable[[], Any]) -> Any:
    """What the question gives, as JSON has it; its `LakebedError` is raised here.

    The question is a function that can be imported there, or a `partial` of one.
    """
    return call_on_executors(spark, lambda _: question(), count=1)[0]


def call_on_executors(
    spark: SparkSession, question: Callable[[int], Any], *, count: int
) -> list[Any]:
    """The same of a question that is asked for each number below `count`, in tasks of their own."""

    def answers(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            for number in batch.column(0).to_pylist():
                text = encoded_answer(lambda number=number: question(number))  # type: ignore[misc]
                yield pa.RecordBatch.from_pydict({"answer": [text]})

    frame = spark.range(0, count, 1, count).mapInArrow(answers, "answer string")
    return [_value(msgspec.json.decode(row[0], type=Answer)) for row in frame.collect()]


def _value(answer: Answer) -> Any:
    if answer.error:
        found = getattr(errors, answer.error, LakebedError)
        raise (
            found(answer.text)
            if issubclass(found, errors.InputError)
            else LakebedError(answer.text)
        )
    return answer.value


def encoded_answer(question: Callable[[], Any]) -> str:
    try:
        answer = Answer(value=question())
    except LakebedError as error:
        kinds = [one.__name__ for one in type(error).__mro__ if hasattr(errors, one.__name__)]
        answer = Answer(error=kinds[0], text=str(error))
    return msgspec.json.encode(answer).decode()
