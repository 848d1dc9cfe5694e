"""Builds the compiled kernels and the description for indexes; the rest is in pyproject.toml.

The kernels are optional: where they cannot be compiled the package is installed without them and
uses the Python reference, unless `LAKEBED_REQUIRE_KERNELS=1`. pip shows what a build prints only
with `-v`: so `lakebed.kernels.disk` reports it again, when the first store is opened. Every build
starts from nothing, in a temporary folder, so that no old file is ever taken into a package.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from types import ModuleType

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
REQUIRED = os.environ.get("LAKEBED_REQUIRE_KERNELS", "") not in ("", "0")
RELATIVE_LINK = re.compile(r"\[([^]]+)]\((?![a-z]+:|#)([^)\s]+)\)")
NOT_BUILT = """
************************************************************************************************
lakebed: THE COMPILED KERNELS WERE NOT BUILT.
The package will work with the Python ones, which are 10 to 40 times slower on small records.
Install a C compiler and the headers of Python (gcc and python3-dev on Debian), then install again.
The reason: {error}
************************************************************************************************
"""


class BuildKernels(build_ext):  # type: ignore[misc]
    """Generates the C sources into the build folder, and may fail without failing the build."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.force = True

    def build_extension(self, ext: Extension) -> None:
        try:
            self._build(ext)
        except Exception as error:
            if REQUIRED:
                raise
            print(NOT_BUILT.format(error=error), file=sys.stderr)

    def _build(self, ext: Extension) -> None:
        build = load_build_module()
        folder = Path(self.build_temp).resolve() / "kernels"
        folder.mkdir(parents=True, exist_ok=True)
        ext.sources = [str(build.generate_c(folder))]
        ext.extra_compile_args = build.compile_arguments(folder)
        super().build_extension(ext)


def load_build_module() -> ModuleType:
    """`lakebed.kernels.build`, loaded without its package."""
    path = ROOT / "src" / "lakebed" / "kernels" / "build.py"
    spec = importlib.util.spec_from_file_location("lakebed_kernels_build", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def fresh_build_folder() -> str:
    folder = tempfile.mkdtemp(prefix="lakebed-build-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def long_description() -> str:
    """README.md as a package index shows it, where links to files of the repository lead nowhere:
    the text of such a link stays, with the name of the file in the source archive."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return RELATIVE_LINK.sub(r"\1 (`\2`)", text)


setup(
    long_description=long_description(),
    long_description_content_type="text/markdown",
    ext_modules=[
        Extension(
            "lakebed.kernels._compiled",
            ["src/lakebed/kernels/_compiled.pyx"],
            optional=not REQUIRED,
        )
    ],
    cmdclass={"build_ext": BuildKernels},
    options={"build": {"build_base": fresh_build_folder()}},
)
