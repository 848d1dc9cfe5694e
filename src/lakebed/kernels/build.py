"""Builds the compiled kernels, and checks whether the installed ones are up to date.

    python -m lakebed.kernels.build            compile in place; only in a checkout
    python -m lakebed.kernels.build --check    exit with 0 if compiled and up to date, else with 1

`setup.py` loads this file by its path, before the package can be imported. A C header with
constants is generated from the layouts, polynomials and limits that the Python code uses. It is
written to a temporary folder, so no generated file can become outdated. The compiled module
contains a hash of all files that it was built from.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

MODULE = "lakebed.kernels._compiled"
HEADER_NAME = "lakebed_constants.h"

_HERE = Path(__file__).resolve().parent
_PACKAGE = _HERE.parent
_PYTHON_SOURCES = (
    "base/layout.py",
    "base/files/writing.py",
    "kernels/build.py",
    "kernels/format.py",
    "kernels/polynomials.py",
    "kernels/results.py",
)
_LAYOUTS = (
    "AOF_RECORD",
    "KERATIN_RECORD",
    "KERATIN_TRAILER",
    "KERATIN_BLOCK",
    "KERATIN_KEY",
    "KERATIN_PRODUCER",
    "KERATIN_HEADERS",
    "KERATIN_NAME",
    "KERATIN_VALUE",
    "RECORD_BATCH",
)
_FORMAT_NUMBERS = (
    "AOF_ALIGNMENT",
    "KERATIN_MAGIC",
    "KERATIN_VERSION",
    "KERATIN_BATCH",
    "KERATIN_TOMBSTONE",
    "KERATIN_BLOCK_VERSION",
    "KERATIN_HAS_KEY",
    "KERATIN_HAS_PRODUCER",
    "KERATIN_NULL_LENGTH",
    "PRODUCER_SEQUENCE_COUNT",
    "PRODUCER_RUN_COUNT_MAX",
    "RECORD_BATCH_MAGIC",
    "BATCH_HEADER_BYTES_MIN",
    "BATCH_RECORD_BYTES_MIN",
    "MURMUR2_MULTIPLIER",
    "MURMUR2_SEED",
)


def main(arguments: list[str]) -> int:
    """Runs the command line, and returns the exit code."""
    if arguments == ["--check"]:
        problem = stale_reason()
        print(problem or "the compiled kernels are up to date")
        return 1 if problem else 0
    if arguments:
        print("usage: python -m lakebed.kernels.build [--check]", file=sys.stderr)
        return 64
    return build_in_place()


def source_hash() -> str:
    """Returns a hash of the names and contents of all files that the compiled module is built
    from.
    """
    digest = hashlib.sha256()
    for path in source_files():
        content = path.read_bytes()
        digest.update(f"{path.relative_to(_PACKAGE).as_posix()} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


def source_files() -> list[Path]:
    compiled = [path for suffix in ("pyx", "pxd", "pxi", "h") for path in _HERE.glob(f"*.{suffix}")]
    return sorted([*compiled, *(_PACKAGE / name for name in _PYTHON_SOURCES)])


def stale_reason() -> str:
    """Returns why the compiled module must be built, or an empty string if it is up to date."""
    try:
        compiled = importlib.import_module(MODULE)
    except ImportError as error:
        return f"there are no compiled kernels ({error})"
    if getattr(compiled, "SOURCE_HASH", "") != source_hash():
        return f"outdated kernels, not made from these sources: {compiled.__file__}"
    return ""


def build_in_place() -> int:
    """Compiles the module into the source folder, and returns the exit code."""
    root = _PACKAGE.parent.parent
    if not (root / "setup.py").is_file():
        print(f"{root} is not a checkout: reinstall the package instead", file=sys.stderr)
        return 66
    command = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
    environment = {**os.environ, "LAKEBED_REQUIRE_KERNELS": "1"}
    return subprocess.run(command, cwd=root, env=environment, check=False).returncode  # noqa: S603


def generate_c(folder: Path) -> Path:
    """Writes the C header with constants and the generated C file into `folder`, and returns the
    path of the C file.
    """
    from Cython.Build import cythonize
    from setuptools import Extension

    (folder / HEADER_NAME).write_text(constants_header(), encoding="utf-8")
    source = _HERE / "_compiled.pyx"
    extension = Extension(MODULE, [os.path.relpath(source)])
    cythonize([extension], build_dir=str(folder), force=True, quiet=True)  # type: ignore[no-untyped-call]
    (generated,) = folder.rglob("_compiled.c")
    return generated


def compile_arguments(folder: Path) -> list[str]:
    """Returns the options of the C compiler, which make it optimise and find the headers.

    There is no -march, because the CPU is detected at run time. The folders are searched only for
    quoted includes, so that no header in them can hide a system header.
    """
    return ["-O3", "-fvisibility=hidden", "-iquote", str(_HERE), "-iquote", str(folder)]


def constants_header() -> str:
    """Returns the text of the C header: layout offsets and sizes, magic numbers, limits,
    polynomials, and the hash of the sources.
    """
    lines = [
        "/* Generated by lakebed.kernels.build: do not edit. */",
        "#ifndef LAKEBED_CONSTANTS_H",
        "#define LAKEBED_CONSTANTS_H",
        f'#define LAKEBED_SOURCE_HASH "{source_hash()}"',
        *(f"#define {name} UINT64_C({value:#x})" for name, value in constants().items()),
        "#endif",
    ]
    return "\n".join(lines) + "\n"


def constants() -> dict[str, int]:
    """Returns all numbers that the C code shares with the Python code, by their C names."""
    with _sources() as (formats, polynomials, results, writing):
        found: dict[str, int] = {}
        for name in _LAYOUTS:
            found |= _layout_constants(name, getattr(formats, name))
        for name in _FORMAT_NUMBERS:
            found[name] = getattr(formats, name)
        for name in ("WRITE_BYTES_MAX", "GATHER_BYTES", "AGAIN_COUNT_MAX"):
            found[name] = getattr(writing, name)
        found |= {f"STOP_{stop.name}": int(stop) for stop in results.Stop}
        found |= {f"BATCH_{stop.name}": int(stop) for stop in results.BatchStop}
        found |= {f"BLOCK_{stop.name}": int(stop) for stop in results.BlockStop}
        found |= polynomials.crc32c_constants() | polynomials.crc64_constants()
        return found


def _layout_constants(name: str, layout: Any) -> dict[str, int]:
    found = {f"{name}_SIZE": layout.size}
    for field in layout.fields:
        found[f"{name}_{field.name.upper()}_OFFSET"] = field.offset
        found[f"{name}_{field.name.upper()}_BYTES"] = field.size
    return found


@contextmanager
def _sources() -> Iterator[tuple[ModuleType, ...]]:
    """Imports and yields the modules that the constants come from.

    During an installation the `__init__` files of the package cannot run, because they import the
    compiled module and other packages that are not installed yet. So empty packages replace them.
    """
    names = ("kernels.format", "kernels.polynomials", "kernels.results", "base.files.writing")
    stand_in = "lakebed" not in sys.modules
    if stand_in:
        for name in ("", ".base", ".base.files", ".kernels"):
            package = ModuleType(f"lakebed{name}")
            package.__path__ = [str(_PACKAGE.joinpath(*name.split(".")))]
            sys.modules[package.__name__] = package
    try:
        yield tuple(importlib.import_module(f"lakebed.{name}") for name in names)
    finally:
        if stand_in:
            for name in [name for name in sys.modules if name.partition(".")[0] == "lakebed"]:
                del sys.modules[name]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
