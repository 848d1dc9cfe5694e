"""A lake that is only read: beside its writer, after it, and where there is none."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from lakebed.base.errors import Closed, Corrupt, DiskError, UnknownVersion
from lakebed.base.simulation.databases import SimulatedDatabases
from lakebed.base.simulation.world import World
from lakebed.seglake.errors import Damaged, MethodNotAllowed, NoSuchBucket, NoSuchKey
from lakebed.seglake.lake import Lake
from lakebed.seglake.model import State
from lakebed.seglake.ranges import ByteRange
from lakebed.seglake.read_only import ReadOnlyLake
from tests.seglake.damaged_lakes import (
    change_rows,
    files_of,
    flip,
    is_shared,
    manifest_of,
    reading,
    segment_file,
    writing,
)

BIG = bytes(range(256)) * (9 << 12)  # three chunks


def test_where_nothing_was_stored_there_are_no_buckets_and_nothing_is_made(tmp_path: Path) -> None:
    with reading(tmp_path) as lake:
        assert lake.buckets.list() == []
        with pytest.raises(NoSuchBucket):
            lake.buckets.get("photos")
        with pytest.raises(NoSuchBucket):
            lake.objects.get("photos", "k")
        with pytest.raises(NoSuchBucket):
            lake.objects.list("photos")
    assert list(tmp_path.iterdir()) == []


def test_what_is_stored_later_is_seen(tmp_path: Path) -> None:
    with reading(tmp_path) as lake:
        assert lake.buckets.list() == []
        with writing(tmp_path) as writer:
            writer.buckets.create("photos")
            assert [bucket.name for bucket in lake.buckets.list()] == ["photos"]
            writer.objects.put("photos", "k", b"one")
            assert lake.objects.get("photos", "k").read() == b"one"
            writer.objects.put("photos", "k", b"two")
            assert lake.objects.get("photos", "k").read() == b"two"
        assert lake.objects.get("photos", "k").read() == b"two"


@pytest.mark.parametrize("begun", ["", "PRAGMA journal_mode = wal"])
def test_metadata_whose_making_was_cut_short_are_none(tmp_path: Path, begun: str) -> None:
    (tmp_path / "meta.db").touch()
    if begun:
        change_rows(tmp_path, begun)
    before = files_of(tmp_path, but=is_shared)
    with reading(tmp_path) as lake:
        assert lake.buckets.list() == []
    assert files_of(tmp_path, but=is_shared) == before


def test_everything_about_objects_can_be_read(tmp_path: Path) -> None:
    with writing(tmp_path) as writer:
        writer.buckets.create("photos")
        old = writer.objects.put("photos", "a/big", BIG)
        writer.objects.put("photos", "a/big", b"small")
        marker = writer.objects.delete("photos", "b")
    with reading(tmp_path) as lake:
        objects = lake.objects
        assert objects.get("photos", "a/big", version_id=old.version_id).read() == BIG
        part = objects.get(
            "photos", "a/big", version_id=old.version_id, byte_range=ByteRange(4_194_300, 4_194_310)
        )
        assert part.read() == BIG[4_194_300:4_194_311]
        assert objects.head("photos", "a/big").size == 5
        assert objects.list("photos", delimiter="/").prefixes == ["a/"]
        listed = objects.list_versions("photos").items
        assert [(one.row.key, one.is_latest) for one in listed] == [
            ("a/big", True), ("a/big", False), ("b", True),
        ]  # fmt: skip
        with pytest.raises(NoSuchKey):
            objects.head("photos", "b")
        with pytest.raises(MethodNotAllowed):
            objects.head("photos", "b", version_id=marker.version_id)


def test_reading_changes_no_file(tmp_path: Path) -> None:
    with writing(tmp_path) as writer:
        writer.buckets.create("photos")
        writer.objects.put("photos", "k", BIG)
    before = files_of(tmp_path, but=is_shared)
    with reading(tmp_path) as lake:
        lake.objects.get("photos", "k").read()
        lake.objects.list("photos")
    assert files_of(tmp_path, but=is_shared) == before


def test_damage_is_told_and_not_marked(tmp_path: Path) -> None:
    with writing(tmp_path) as writer:
        writer.buckets.create("photos")
        writer.objects.put("photos", "k", b"some bytes")
    with reading(tmp_path) as lake:
        [chunk] = manifest_of(lake, "photos", "k").chunks
        flip(segment_file(tmp_path, chunk.segment_id), chunk.offset)
        with pytest.raises(Damaged):
            lake.objects.get("photos", "k").read()
        assert lake.objects.head("photos", "k").state is State.ACTIVE


def test_what_is_closed_is_refused(tmp_path: Path) -> None:
    with reading(tmp_path) as lake:
        pass
    lake.close()
    with pytest.raises(Closed):
        lake.buckets.list()


def test_a_file_that_is_no_database_is_told(tmp_path: Path) -> None:
    (tmp_path / "meta.db").write_bytes(b"no database at all" * 500)
    with reading(tmp_path) as lake, pytest.raises(Corrupt, match=r"meta\.db"):
        lake.buckets.list()


def test_newer_metadata_are_refused(tmp_path: Path) -> None:
    with writing(tmp_path):
        pass
    change_rows(tmp_path, "INSERT INTO schema_migrations VALUES (1000, 0)")
    with reading(tmp_path) as lake, pytest.raises(UnknownVersion):
        lake.buckets.list()


@pytest.mark.process
def test_what_only_a_writer_can_settle_is_left_to_it(tmp_path: Path) -> None:
    # A transaction of the time before the database was in WAL mode, cut short.
    program = (
        "import apsw, os, sys\n"
        "connection = apsw.Connection(sys.argv[1])\n"
        "connection.execute('CREATE TABLE t (x); PRAGMA cache_size = 2; BEGIN IMMEDIATE')\n"
        "for _ in range(500):\n"
        "    connection.execute('INSERT INTO t VALUES (randomblob(1000))')\n"
        "os._exit(9)\n"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "meta.db")], check=False)
    before = files_of(tmp_path)
    assert "meta.db-journal" in before
    with (
        reading(tmp_path) as lake,
        pytest.raises(DiskError, match="open the store for writing first"),
    ):
        lake.buckets.list()
    assert files_of(tmp_path) == before


@pytest.mark.process
def test_after_a_killed_writer_its_commits_are_there_and_nothing_is_settled(tmp_path: Path) -> None:
    program = (
        "import os, sys\n"
        "from lakebed.base.runner import ThreadRunner\n"
        "from lakebed.kernels.disk import real_disk\n"
        "from lakebed.seglake.lake import Lake\n"
        "lake = Lake(sys.argv[1], disk=real_disk(), runner=ThreadRunner())\n"
        "lake.buckets.create('photos')\n"
        "for number in range(20):\n"
        "    lake.objects.put('photos', f'{number:02}', b'%d' % number)\n"
        "os._exit(9)\n"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False)
    before = files_of(tmp_path, but=lambda path: path.name == "meta.db-shm")
    with reading(tmp_path) as lake:
        keys = [row.key for row in lake.objects.list("photos").items]
        assert keys == [f"{number:02}" for number in range(20)]
        for number, key in enumerate(keys):
            assert lake.objects.get("photos", key).read() == b"%d" % number
    assert files_of(tmp_path, but=lambda path: path.name == "meta.db-shm") == before


def test_it_works_on_a_simulated_disk() -> None:
    world = World(1)
    databases = SimulatedDatabases(world.disk)
    connector = databases.connect
    with (
        closing(databases),
        Lake("root", disk=world.disk, runner=world.runner, connector=connector) as writer,
        ReadOnlyLake("root", disk=world.disk, runner=world.runner, connector=connector) as lake,
    ):
        writer.buckets.create("photos")
        writer.objects.put("photos", "k", b"one")
        assert lake.objects.get("photos", "k").read() == b"one"


def test_a_connection_that_only_reads_cannot_write(tmp_path: Path) -> None:
    with writing(tmp_path) as writer:
        writer.buckets.create("photos")
    with reading(tmp_path) as lake, lake.metadata.snapshot() as reader:
        with pytest.raises(apsw.ReadOnlyError):
            reader.connection.execute("DELETE FROM buckets")
        assert reader.connection.readonly("main")
