"""What is missing when Spark cannot be used on this machine."""

from __future__ import annotations

from lakebed.base.errors import LakebedError


class SparkUnavailable(LakebedError):
    """pyspark or a Java is missing, or the session did not start. The message says what to do."""

    exit_code = 69
