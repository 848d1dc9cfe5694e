"""The quick start as it is printed, with the wheel in an environment that has nothing else.

`make quick-start PYTHON=/path/to/python3` runs it with another interpreter.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from tests.docs.blocks import blocks, text_of
from tests.docs.reader import Reader
from tests.packaging.distribution import built, chosen_python, installed, run

pytestmark = [pytest.mark.build, pytest.mark.spark, pytest.mark.timeout(1800)]

PAGE = "docs/quick-start.md"
INSTALL = re.compile(r"^pip install '\.\[(\w+)]' ([\w ]*\w) +#", re.MULTILINE)


def test_the_quick_start_runs_with_the_wheel_alone(tmp_path: Path) -> None:
    printed = INSTALL.search(text_of(PAGE))
    assert printed is not None, "the page installs something else"
    extras = [printed[1]]
    if not (shutil.which("java") or os.environ.get("JAVA_HOME")):
        extras.append("java")
    python = chosen_python()
    wheel = built(tmp_path / "distribution", python=python).wheel
    more = printed[2].split()
    programs = installed(wheel, tmp_path / "venv", *more, extras=extras, python=python)
    shown = run(programs / "python", "-c", "import lakebed; print(lakebed.__file__)", cwd=tmp_path)
    assert shown.stdout.startswith(str(tmp_path)), shown
    (tmp_path / "reader").mkdir()
    with Reader(tmp_path / "reader", python=programs / "python") as reader:
        reader.follow(blocks(text_of(PAGE)))
