"""What is missing when Spark cannot be used on this machine, or when data is not there any more."""

from __future__ import annotations

from lakebed.base.errors import LakebedError


class SparkUnavailable(LakebedError):
    """pyspark or a Java is missing, or the session did not start. The message says what to do."""

    exit_code = 69


class DataLost(LakebedError):
    """What a query was to read was removed before it was read. The message says what to do."""

    exit_code = 65
