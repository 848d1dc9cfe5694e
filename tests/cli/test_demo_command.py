"""`lakebed demo`, from the outside."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Lakebed


# Java itself writes warnings to standard error, so nothing is said about that stream here.
@pytest.mark.spark
def test_the_demo_tells_what_it_does(lakebed: Lakebed) -> None:
    done = lakebed("demo")
    assert done.exit_code == 0, done.err
    assert "nothing acknowledged was lost" in done.out


@pytest.mark.spark
def test_the_demo_as_json_is_one_document(lakebed: Lakebed) -> None:
    done = lakebed("--json", "demo")
    assert done.exit_code == 0, done.err
    assert isinstance(json.loads(done.out), dict)


def test_the_demo_on_a_bad_scratch_folder_is_one_line(lakebed: Lakebed, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = lakebed("demo", "--scratch", "file")
    assert done.error_line()
    assert done.exit_code not in (0, 70)
