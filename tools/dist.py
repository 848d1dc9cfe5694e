"""Write the source archive to `dist/`, or to the folder that is given, and the wheel to it.

The wheel is built from the unpacked archive, so that an archive which lacks something is not
released. Both by the build tools of this environment.
"""

from __future__ import annotations

import contextlib
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

from setuptools import build_meta


def main(arguments: Sequence[str]) -> None:
    folder = Path(*arguments[:1] or ["dist"]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    archive = folder / build_meta.build_sdist(str(folder))
    with tempfile.TemporaryDirectory(prefix="lakebed-dist-") as scratch:
        with tarfile.open(archive) as packed:
            packed.extractall(scratch, filter="data")
        (tree,) = Path(scratch).iterdir()
        with contextlib.chdir(tree):
            wheel = folder / build_meta.build_wheel(str(folder))
    print(archive, wheel, sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
