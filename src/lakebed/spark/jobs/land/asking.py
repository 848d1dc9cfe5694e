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


def ask(spark: SparkSession, question: Callable[[], Any]) -> Any:
    """What the question gives, as JSON has it; its `LakebedError` is raised here.

    The question is a function that can be imported there, or a `partial` of one.
    """

    def answers(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for _ in batches:
            text = answered(question)
            yield pa.RecordBatch.from_pydict({"answer": [text]})

    frame = spark.range(0, 1, 1, 1).mapInArrow(answers, "answer string")
    answer = msgspec.json.decode(frame.collect()[0][0], type=Answer)
    if answer.error:
        found = getattr(errors, answer.error, LakebedError)
        raise (
            found(answer.text)
            if issubclass(found, errors.InputError)
            else LakebedError(answer.text)
        )
    return answer.value


def answered(question: Callable[[], Any]) -> str:
    try:
        answer = Answer(value=question())
    except LakebedError as error:
        kinds = [one.__name__ for one in type(error).__mro__ if hasattr(errors, one.__name__)]
        answer = Answer(error=kinds[0], text=str(error))
    return msgspec.json.encode(answer).decode()
