"""`store.json` as bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakebed.base.errors import DataError
from lakebed.kernels.disk import real_disk
from lakebed.store import version
from lakebed.store.version import StoreVersion

GOLDEN = Path(__file__).parents[1] / "golden" / "store" / "v1" / "store.json"
CREATED = StoreVersion(1, 1_700_000_000_000)


def test_the_bytes_of_the_version_file_do_not_change() -> None:
    assert version.encode(CREATED) == GOLDEN.read_bytes()
    assert version.decode(GOLDEN.read_bytes(), path="store.json") == CREATED


def test_no_truncation_of_it_is_taken_for_one() -> None:
    golden = GOLDEN.read_bytes()
    for length in range(len(golden) - 1):
        with pytest.raises(DataError):
            version.decode(golden[:length], path="store.json")


def test_it_is_written_once(tmp_path: Path) -> None:
    first = version.ensure(real_disk(), tmp_path, now_ms=5)
    assert version.ensure(real_disk(), tmp_path, now_ms=9) == first == StoreVersion(1, 5)


def test_what_an_earlier_creation_left_is_removed_and_other_files_are_not(tmp_path: Path) -> None:
    (tmp_path / "store.json.abcd-0.tmp").touch()
    (tmp_path / "lakebed.toml.tmp").touch()
    version.ensure(real_disk(), tmp_path, now_ms=5)
    assert {path.name for path in tmp_path.iterdir()} == {"store.json", "lakebed.toml.tmp"}
