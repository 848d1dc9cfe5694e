"""A local Spark session that listens on this machine alone and says little.

The defaults can be overridden by passing options by their Spark names:

    session(**{"spark.sql.shuffle.partitions": "4"})

pyspark reads `JAVA_HOME` and `PYSPARK_PYTHON` from the environment while it starts; they are set
for that moment and put back. One process has at most one session: a second call returns the first.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from lakebed.base.errors import InputError
from lakebed.base.units import shown
from lakebed.spark import java
from lakebed.spark.errors import SparkUnavailable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOPBACK = "127.0.0.1"
LOGGING_FILE = Path(__file__).with_name("log4j2.properties")


def session(**options: str) -> SparkSession:
    """Start (or get) the session. `SparkUnavailable` if pyspark or a Java is missing."""
    for name in options:
        if not name.startswith("spark."):
            raise InputError(f"{shown(name)} is not a Spark option: their names start with spark.")
    try:
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise SparkUnavailable("pyspark is not installed: install lakebed[spark]") from error
    found = java.find()
    settings = {
        "JAVA_HOME": str(java.home(found)),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": LOOPBACK,
    }
    builder = SparkSession.builder
    for name, value in (default_options() | options).items():
        builder = builder.config(name, value)
    try:
        with _environment(settings):
            return builder.getOrCreate()
    except (PySparkException, OSError) as error:
        reason = str(error).partition("\n")[0]
        raise SparkUnavailable(
            f"Spark did not start on Java {found.version} ({found.candidate.home}): {reason}"
        ) from error


def default_options() -> dict[str, str]:
    """What a session is started with unless it is told otherwise."""
    return {
        "spark.app.name": "lakebed",
        "spark.master": "local[*]",
        "spark.driver.bindAddress": LOOPBACK,
        "spark.driver.host": LOOPBACK,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={LOGGING_FILE.as_uri()}",
    }


@contextmanager
def _environment(settings: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
