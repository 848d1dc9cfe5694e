"""Errors of the Spark integration: Spark cannot run on this machine, or data was removed before
it was read.
"""

from __future__ import annotations

from lakebed.base.errors import LakebedError


class SparkUnavailable(LakebedError):
    """pyspark or Java is missing, or the Spark session did not start. The message states how to
    fix it.
    """

    exit_code = 69


class DataLost(LakebedError):
    """Data that a query needs was removed before the query read it. The message states what to
    do.
    """

    exit_code = 65
