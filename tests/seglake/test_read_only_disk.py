"""A file system that goes read-only under an open store: writes fail, reads go on."""

from __future__ import annotations

import pytest

from lakebed.base.errors import DiskError
from lakebed.base.simulation.world import World
from tests.seglake.lake_worlds import VERSIONED, Machine, content

FIRST, LARGE = content(300, "first"), content(200_000, "large")


def test_reads_go_on_when_the_file_system_goes_read_only() -> None:
    with Machine(World(1), "read-only") as machine:
        lake = machine.open()
        lake.buckets.create(VERSIONED)
        lake.objects.put(VERSIONED, "first", FIRST)
        lake.objects.put(VERSIONED, "large", LARGE)
        machine.world.disk.faults.read_only = True
        for _ in range(3):
            for data in (b"small", LARGE):
                with pytest.raises(DiskError):
                    lake.objects.put(VERSIONED, "refused", data)
            with pytest.raises(DiskError):
                lake.objects.delete(VERSIONED, "first")
            assert lake.objects.get(VERSIONED, "first").read() == FIRST
            assert lake.objects.get(VERSIONED, "large").read() == LARGE
            assert [row.key for row in lake.objects.list(VERSIONED).items] == ["first", "large"]
            assert [bucket.name for bucket in lake.buckets.list()] == [VERSIONED]
            machine.pass_time()
        machine.world.disk.faults.read_only = False
        lake.objects.put(VERSIONED, "again", FIRST)
        assert lake.objects.get(VERSIONED, "again").read() == FIRST
        lake.close()
