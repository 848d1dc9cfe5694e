"""A store to be backed up, written once for all tests of a file."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.store.backup.backups import write_everything


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with something in every engine and tier; to be copied, not changed."""
    root = tmp_path_factory.mktemp("written") / "root"
    write_everything(root)
    return root


@pytest.fixture
def root(written: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(written, tmp_path / "root"))
