"""Errors of the Spark integration: no Spark session can be started, or data that a query needs
does not exist.
"""

from __future__ import annotations

from lakebed.base.errors import LakebedError


class SparkUnavailable(LakebedError):
    """A Python package or a suitable Java is missing, the Spark session did not start, or no Spark
    Connect server answers. The message states the reason.
    """

    exit_code = 69


class DataLost(LakebedError):
    """Data that a query needs does not exist: it was removed, its topic or log was replaced or
    restored from an older backup, or a requested position is after the end. The message states what
    to do.
    """

    exit_code = 65
