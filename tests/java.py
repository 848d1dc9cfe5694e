"""How the tests start Java: programs that live for a minute need no optimising compiler, and the
classes that Spark loads are mapped from an archive, if `tools/java_archive.py` has made one.

They take a quarter of the processor's time so, and do the same.
"""

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path
from typing import Final

BASE_OPTIONS: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
ARCHIVE: Final = Path(sys.prefix) / f"spark-classes-{version('pyspark')}.jsa"
"""Java starts without it if it is of another Java."""

OPTIONS: Final = (
    f"{BASE_OPTIONS} -XX:SharedArchiveFile={ARCHIVE} -Xlog:cds=off -Xlog:cds+dynamic=off"
    if ARCHIVE.exists()
    else BASE_OPTIONS
)

ENVIRONMENT: Final = {
    "SPARK_SUBMIT_OPTS": OPTIONS,  # of drivers and Connect servers
    "SPARK_LAUNCHER_OPTS": BASE_OPTIONS,  # of what finds out how to start these
    "SPARK_DAEMON_JAVA_OPTS": OPTIONS,  # of a cluster's masters and workers
}
"""For the programs that Spark's own scripts start; executors are told by a setting."""
