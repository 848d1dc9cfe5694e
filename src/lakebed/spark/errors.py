"""Errors of the Spark integration: Spark is not available here, or data to be read is gone."""

from __future__ import annotations

from lakebed.base.errors import LakebedError


class SparkUnavailable(LakebedError):
    """pyspark or Java is missing, or the session did not start. The message names the remedy."""

    exit_code = 69


class DataLost(LakebedError):
    """Data that a query needs was removed before it was read. The message names the remedy."""

    exit_code = 65
