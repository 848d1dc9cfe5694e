"""Installing the package: without a compiler, over stale files, and when kernels are required."""

from __future__ import annotations

import shutil
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from lakebed.kernels import build
from tests.kernels.samples import ROOT, SOURCE, run_python

pytestmark = [pytest.mark.build]

COMPILED_NAME = "_compiled" + str(sysconfig.get_config_var("EXT_SUFFIX"))
NEEDED = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE")
PIP = ("-m", "pip", "--quiet", "--disable-pip-version-check")
OFFLINE = ("--no-deps", "--no-index", "--no-build-isolation")
ROUND_TRIP = """
import lakebed.kernels as kernels
assert not kernels.COMPILED
data = kernels.aof_encode([b"a", b"bc"], timestamps=1, ext_ids=2, capacity=999).data
scan = kernels.aof_scan(data, 0, len(data), count_max=9)
assert scan.lengths.tolist() == [1, 2] and scan.stop == kernels.Stop.END
print(kernels.__file__)
import lakebed.kernels.disk
lakebed.kernels.disk.real_disk()
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The sources alone, with a `build` folder of another time beside them."""
    folder = tmp_path / "tree"
    ignored = shutil.ignore_patterns("*.so", "*.c", "__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", folder / "src", ignore=ignored)
    for name in NEEDED:
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, folder / name)
    for old in ("lib", f"lib.{sysconfig.get_platform()}-{sys.implementation.cache_tag}"):
        kernels = folder / "build" / old / "lakebed" / "kernels"
        kernels.mkdir(parents=True)
        (kernels / COMPILED_NAME).write_bytes(b"an old kernel")
        (kernels / "old_module.py").write_text("raise RuntimeError('an old module')\n")
    return folder


def test_without_a_compiler_the_package_installs_and_works(tree: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    done = run_python(
        *PIP, "install", *OFFLINE, "--target", str(target), str(tree), CC="/bin/false"
    )
    assert done.returncode == 0, done.stderr
    installed = {path.name for path in (target / "lakebed" / "kernels").iterdir()}
    assert "reference.py" in installed
    assert COMPILED_NAME not in installed
    assert "old_module.py" not in installed
    ran = run_python("-c", ROUND_TRIP, cwd=tmp_path, path=target, LAKEBED_KERNELS="")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith(str(target))
    assert "the compiled kernels are not installed" in ran.stderr


def test_a_stale_build_folder_gives_nothing_to_a_wheel(tree: Path, tmp_path: Path) -> None:
    compiler = quick_compiler(tmp_path / "cc")
    done = run_python(*PIP, "wheel", *OFFLINE, "--wheel-dir", str(tmp_path), str(tree), CC=compiler)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        compiled = archive.read(f"lakebed/kernels/{COMPILED_NAME}")
    assert "lakebed/kernels/old_module.py" not in names
    assert {path.relative_to(SOURCE).as_posix() for path in build.source_files()} <= names
    assert not [name for name in names if name.endswith((".c", "lakebed_constants.h"))]
    assert build.source_hash().encode() in compiled


def quick_compiler(path: Path) -> str:
    """One that does not optimise, whatever else it is told: what is compiled is never run."""
    path.write_text('#!/bin/sh\nexec cc "$@" -O0\n')
    path.chmod(0o755)
    return str(path)


def test_a_failed_compile_is_an_error_if_the_kernels_are_required(tree: Path) -> None:
    command = ("setup.py", "--quiet", "build_ext", "--inplace")
    optional = run_python(*command, cwd=tree, CC="/bin/false", LAKEBED_REQUIRE_KERNELS="")
    assert optional.returncode == 0, optional.stderr
    assert "THE COMPILED KERNELS WERE NOT BUILT" in optional.stderr
    assert "10 to 40 times slower" in optional.stderr
    required = run_python(*command, cwd=tree, CC="/bin/false", LAKEBED_REQUIRE_KERNELS="1")
    assert required.returncode != 0
