"""Calls functions on Spark's executors, because the driver may not be able to reach S3."""

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
    """The result of a call on an executor: its value, or its error.

    `error` is the name of the error's class, or of the nearest base class in `lakebed.base.errors`
    that can be made from a message alone; `text` is the message.
    """

    value: Any = None
    error: str = ""
    text: str = ""


def call_on_executor(spark: SparkSession, function: Callable[[], Any]) -> Any:
    """Calls the function on an executor and returns its result.

    An `InputError` is raised again here as the nearest class in `lakebed.base.errors`, any other
    `LakebedError` as a plain `LakebedError`, with the same message. The result is sent as JSON. The
    function must be importable on the executor, or be a `partial` of such a function.
    """
    return call_on_executors(spark, lambda _: function(), count=1)[0]


def call_on_executors(
    spark: SparkSession, function: Callable[[int], Any], *, count: int
) -> list[Any]:
    """Calls `function(0)` to `function(count - 1)`, each in a task of its own. Returns the results
    in that order. Errors are raised as by `call_on_executor`.
    """

    def answers(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            for number in batch.column(0).to_pylist():
                text = encoded_answer(lambda number=number: function(number))  # type: ignore[misc]
                yield pa.RecordBatch.from_pydict({"answer": [text]})

    frame = spark.range(0, count, 1, count).mapInArrow(answers, "answer string")
    return [value_of(msgspec.json.decode(row[0], type=Answer)) for row in frame.collect()]


def value_of(answer: Answer) -> Any:
    if answer.error:
        error_class = getattr(errors, answer.error, LakebedError)
        raise (
            error_class(answer.text)
            if issubclass(error_class, errors.InputError)
            else LakebedError(answer.text)
        )
    return answer.value


def encoded_answer(function: Callable[[], Any]) -> str:
    try:
        answer = Answer(value=function())
    except LakebedError as error:
        kinds = [
            error_class.__name__
            for error_class in type(error).__mro__
            if hasattr(errors, error_class.__name__) and _takes_a_text(error_class)
        ]
        answer = Answer(error=kinds[0], text=str(error))
    return msgspec.json.encode(answer).decode()


def _takes_a_text(error_class: type) -> bool:
    """Returns whether an error of that class can be made from a message alone."""
    return error_class.__init__ is LakebedError.__init__  # type: ignore[misc]
