"""How the tests start Java: programs that live for a minute need no optimising compiler.

They take half of the processor's time so, and do the same.
"""

from __future__ import annotations

from typing import Final

OPTIONS: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"

ENVIRONMENT: Final = {
    "SPARK_SUBMIT_OPTS": OPTIONS,  # of drivers and Connect servers
    "SPARK_LAUNCHER_OPTS": OPTIONS,  # of what finds out how to start these
    "SPARK_DAEMON_JAVA_OPTS": OPTIONS,  # of a cluster's masters and workers
}
"""For the programs that Spark's own scripts start; executors are told by a setting."""
