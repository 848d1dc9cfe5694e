"""Both disks, so that one suite holds for either."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from lakebed.base.files import Disk
from lakebed.base.simulation.disk import SimulatedDisk
from lakebed.kernels.disk import real_disk


@pytest.fixture(params=["real", "simulated"])
def disk_and_folder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Disk, str]]:
    if request.param == "real":
        yield real_disk(), str(tmp_path)
    else:
        disk = SimulatedDisk(Random(0))
        disk.make_folder("/work")
        yield disk, "/work"


@pytest.fixture
def disk(disk_and_folder: tuple[Disk, str]) -> Disk:
    return disk_and_folder[0]


@pytest.fixture
def folder(disk_and_folder: tuple[Disk, str]) -> str:
    return disk_and_folder[1]
