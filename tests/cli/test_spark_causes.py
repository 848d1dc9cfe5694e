"""Why a job failed: one sentence out of what Spark makes of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakebed.base.errors import Corrupt, LakebedError, NotFound, TooLarge
from lakebed.cli.spark_causes import JobFailed, cause_of, is_sparks, with_log
from lakebed.spark.errors import DataLost

WORKER = """[PYTHON_EXCEPTION] An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "/x/planning.py", line 83, in wanted_portions
    require_lanes(feed, kind, name)
lakebed.base.errors.NotFound: /data: there is no topic zzz; topics that there are: a, b
 SQLSTATE: 38000"""

JAVA = """An error occurred while calling o94.save.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 2.0 failed
Traceback (most recent call last):
  File "/x.py", line 37, in g
    first()
lakebed.base.errors.Corrupt: /x/0.log: at byte 7: bad checksum

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/x.py", line 40, in g
    second()
lakebed.spark.errors.DataLost: orders, partition 0: gone
\tat org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:1097)
Caused by: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/x.py", line 40, in g
    second()
lakebed.spark.errors.DataLost: orders, partition 0: gone
\tat java.base/java.lang.Thread.run(Thread.java:1)
"""


def cause(text: str) -> LakebedError:
    return cause_of(RuntimeError(text))


def test_an_error_of_ours_is_that_error_again() -> None:
    found = cause(WORKER)
    assert type(found) is NotFound
    assert str(found) == "/data: there is no topic zzz; topics that there are: a, b"
    assert found.exit_code == 66


def test_of_several_the_last_one_is_told() -> None:
    found = cause(JAVA)
    assert (type(found), str(found)) == (DataLost, "orders, partition 0: gone")


def test_an_error_with_arguments_of_its_own_can_be_told() -> None:
    found = cause("x\nlakebed.base.errors.TooLarge: a message is 9, the maximum is 8")
    assert (type(found), str(found)) == (TooLarge, "a message is 9, the maximum is 8")
    assert type(cause("lakebed.base.errors.Corrupt: bad")) is Corrupt


@pytest.mark.parametrize(
    "line",
    [
        "lakebed.nope.NotFound: x",
        "lakebed.base.errors.nope: x",
        "lakebed.base.units.KIB: x",
        "lakebed.cli.output.Output: x",
    ],
)
def test_what_only_looks_like_ours_is_passed_over(line: str) -> None:
    assert type(cause(f"first\n{line}")) is JobFailed


def test_of_other_errors_the_end_of_the_traceback_is_told() -> None:
    text = (
        "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n"
        '  File "/x.py", line 1, in f\n    f()\n'
        "pyarrow.lib.ArrowInvalid: not a file SQLSTATE: 38000"
    )
    assert str(cause(text)) == "pyarrow.lib.ArrowInvalid: not a file"
    without = 'Traceback (most recent call last):\n  File "/x.py", line 1, in f\nKeyError'
    assert str(cause(without)) == "KeyError"


def test_of_javas_errors_the_innermost_is_told() -> None:
    text = (
        "An error occurred while calling o1.start.\n: org.apache.spark.SparkException: outer\n"
        "\tat x.y(Z.java:1)\nCaused by: java.io.IOException: middle\n\tat x.y(Z.java:2)\n"
        "Caused by: java.net.ConnectException: Connection refused\n\tat x.y(Z.java:3)\n"
    )
    assert str(cause(text)) == "ConnectException: Connection refused"
    alone = (
        "An error occurred while calling o1.start.\n: java.lang.IllegalStateException: no\n\tat x"
    )
    assert str(cause(alone)) == "java.lang.IllegalStateException: no"


def test_an_analysis_error_is_its_first_line() -> None:
    text = "[UNRESOLVED_COLUMN] A column `nope` cannot be resolved. SQLSTATE: 42703;\n'Project\n"
    assert str(cause(text)).startswith("[UNRESOLVED_COLUMN] A column `nope` cannot be resolved.")
    assert str(cause_of(RuntimeError())) == "RuntimeError"


def test_the_place_of_the_log_is_told_and_the_kind_stays() -> None:
    found = with_log(TooLarge("a message", size=9, limit=8), Path("/tmp/x/spark.log"))
    assert type(found) is TooLarge
    assert str(found) == "a message is 9, the maximum is 8 (Spark's log: /tmp/x/spark.log)"


def test_only_what_came_through_spark_is_looked_into() -> None:
    errors = pytest.importorskip("pyspark.errors")
    assert is_sparks(errors.AnalysisException("x"))
    assert not is_sparks(TypeError("a bug of ours"))
