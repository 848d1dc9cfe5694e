"""Tier 2 in a folder: durable when acknowledged, whole or not there, whatever crashes when."""

from __future__ import annotations

import errno
from pathlib import Path
from random import Random

import pytest
import pyzstd

from lakebed.aof.tiers.errors import Missing, Tier2Error, Unauthorised, Unavailable
from lakebed.aof.tiers.folder_object import FolderObject, decode_trailer, encode_trailer
from lakebed.aof.tiers.folder_store import FolderStore
from lakebed.aof.tiers.object_store import ObjectSource
from lakebed.aof.tiers.ranges import BytesSource, pieces
from lakebed.base.errors import Corrupt, DataError
from lakebed.base.files.protocol import TEMPORARY_SUFFIX
from lakebed.base.simulation.disk import Crash, SimulatedDisk
from lakebed.base.simulation.sweep import sweep
from lakebed.base.simulation.world import World
from lakebed.kernels.disk import real_disk
from tests.aof.segments import flipped

pytestmark = pytest.mark.sweep

FOLDER = "/store/tier2"
KEY = "aof2/ff/segment-3-17.zst"
OTHER = "aof2/ff/segment-4-18.zst"


def content(store: FolderStore, key: str) -> tuple[bytes, dict[str, str]] | None:
    """The object, all of it; None if there is none."""
    try:
        info = store.head(key)
    except Missing:
        return None
    data = b"".join(pieces(ObjectSource(store, key, size=info.size)))
    assert info.metadata is not None
    return data, dict(info.metadata)


def version(number: int) -> tuple[bytes, dict[str, str]]:
    return bytes([number]) * 1500 * number, {"number": str(number)}


class PutsAndDeletes:
    """One key is put, replaced, deleted and put again; another one beside it is put once."""

    moves = (1, 2, None, 3)

    def __init__(self) -> None:
        self.before: int | None = None  # what was acknowledged last
        self.now: int | None = None  # what is under way, or was acknowledged too
        self.has_other = False

    def run(self, world: World) -> None:
        store = FolderStore(world.disk, FOLDER)
        for number in self.moves:
            self.now = number
            if number is None:
                store.delete(KEY)
            else:
                data, metadata = version(number)
                store.put(KEY, BytesSource(data), metadata=metadata)
            self.before = number
        store.put(OTHER, BytesSource(b"other"), metadata={})
        self.has_other = True

    def check(self, world: World) -> None:
        store = FolderStore(world.disk, FOLDER)
        found = content(store, KEY)
        allowed = [
            None if number is None else version(number) for number in (self.before, self.now)
        ]
        assert found in allowed, "not what was acknowledged, or half of it"
        assert (content(store, OTHER) == (b"other", {})) or not self.has_other
        listed = {info.key for info in store.list("")}
        assert listed == {key for key in (KEY, OTHER) if content(store, key) is not None}
        store.remove_leftovers()
        folder = f"{FOLDER}/aof2/ff"
        names = world.disk.names(folder) if world.disk.exists(folder) else []
        assert not [name for name in names if name.endswith(TEMPORARY_SUFFIX)]
        assert {info.key for info in store.list("")} == listed


class PutsAndDeletesCrashingTwice(PutsAndDeletes):
    """What was seen after a kill is still there after a power cut behind it."""

    def check(self, world: World) -> None:
        seen = {
            info.key: content(FolderStore(world.disk, FOLDER), info.key)
            for info in FolderStore(world.disk, FOLDER).list("")
        }
        for survivors in range(3):
            twin = world.copy()
            twin.restart(Crash.POWER, survivors=survivors)
            store = FolderStore(twin.disk, FOLDER)
            for key, found in seen.items():
                assert content(store, key) == found, "an object that was told of is gone"
        super().check(world)


@pytest.mark.parametrize("scenario", [PutsAndDeletes, PutsAndDeletesCrashingTwice])
def test_a_crash_at_any_step_leaves_what_was_acknowledged_and_no_half(
    scenario: type[PutsAndDeletes],
) -> None:
    assert sweep(scenario, seeds=range(3)) > 300


@pytest.mark.parametrize("operation", ["create", "pwrite", "fdatasync", "rename", "fsync"])
def test_a_put_that_fails_is_told_and_leaves_old_or_new(operation: str) -> None:
    disk = SimulatedDisk(Random(1))
    store = FolderStore(disk, FOLDER)
    store.put(KEY, BytesSource(b"old"), metadata={})
    disk.faults.fail(operation)
    with pytest.raises(Unavailable):
        store.put(KEY, BytesSource(b"new"), metadata={})
    assert content(store, KEY) in [(b"old", {}), (b"new", {})]
    store.put(KEY, BytesSource(b"new"), metadata={})
    disk.restart(Crash.POWER)
    assert content(FolderStore(disk, FOLDER), KEY) == (b"new", {})


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (errno.EIO, Unavailable),
        (errno.ENOSPC, Unavailable),
        (errno.EACCES, Unauthorised),
        (errno.EROFS, Unauthorised),
    ],
)
def test_the_disks_errors_have_a_reason(code: int, kind: type[Tier2Error]) -> None:
    disk = SimulatedDisk(Random(1))
    store = FolderStore(disk, FOLDER)
    store.put(KEY, BytesSource(b"old"), metadata={})
    disk.faults.fail("create", code=code)
    with pytest.raises(kind, match=f"put {KEY}: "):
        store.put(KEY, BytesSource(b"new"), metadata={})


def test_a_folder_that_somebody_removed_is_made_again_by_the_next_try() -> None:
    disk = SimulatedDisk(Random(1))
    store = FolderStore(disk, FOLDER)
    store.put(KEY, BytesSource(b"one"), metadata={})
    disk.unlink(f"{FOLDER}/{KEY}")
    disk.remove_folder(f"{FOLDER}/aof2/ff")
    with pytest.raises(Unavailable):
        store.put(KEY, BytesSource(b"two"), metadata={})
    store.put(KEY, BytesSource(b"two"), metadata={})
    assert content(store, KEY) == (b"two", {})


def test_any_damage_to_the_trailer_is_found() -> None:
    """But for the eight bytes that only zstd tools look at."""
    trailer = encode_trailer(FolderObject(5, 77, {"a": "b"}))
    whole = b"12345" + trailer
    assert decode_trailer(whole, path="p", file_bytes=len(whole)) == (5, 77, {"a": "b"})
    for offset in range(len(b"12345") + 8, len(whole)):
        for bit in range(8):
            with pytest.raises(DataError):
                decode_trailer(flipped(whole, offset, bit), path="p", file_bytes=len(whole))
    for length in range(len(whole)):
        with pytest.raises(DataError):
            decode_trailer(whole[:length], path="p", file_bytes=length)


def test_a_file_that_grew_or_shrank_is_no_object() -> None:
    trailer = encode_trailer(FolderObject(5, 77, {}))
    for body in (b"1234", b"123456"):
        whole = body + trailer
        with pytest.raises(Corrupt, match="another size than its trailer"):
            decode_trailer(whole, path="p", file_bytes=len(whole))


def test_a_damaged_object_is_left_out_of_the_listing_and_told_by_head() -> None:
    disk = SimulatedDisk(Random(1))
    store = FolderStore(disk, FOLDER)
    for key in (KEY, OTHER):
        store.put(key, BytesSource(b"x" * 100), metadata={})
    disk.flip_bit(f"{FOLDER}/{KEY}", offset=120)
    assert [info.key for info in store.list("")] == [OTHER]
    with pytest.raises(Corrupt, match="trailer is damaged"):
        store.head(KEY)
    store.put(KEY, BytesSource(b"mended"), metadata={})
    assert content(store, KEY) == (b"mended", {})


def test_files_that_are_no_objects_are_not_listed(tmp_path: Path) -> None:
    store = FolderStore(real_disk(), str(tmp_path))
    store.put(KEY, BytesSource(b"x"), metadata={})
    (tmp_path / "aof2" / "a file of somebody").write_text("hello")
    (tmp_path / "aof2" / "short").write_text("x")
    (tmp_path / "aof2" / f"unfinished{TEMPORARY_SUFFIX}").write_text("half")
    assert [info.key for info in store.list("")] == [KEY]
    assert store.remove_leftovers() == [f"unfinished{TEMPORARY_SUFFIX}"]


def test_an_object_that_is_zstd_stays_readable_by_its_tools(tmp_path: Path) -> None:
    store = FolderStore(real_disk(), str(tmp_path))
    store.put(KEY, BytesSource(pyzstd.compress(b"records")), metadata={"crc64": "00"})
    assert pyzstd.decompress((tmp_path / KEY).read_bytes()) == b"records"


def test_a_put_costs_the_folders_syncs_only_once() -> None:
    disk = SimulatedDisk(Random(1))
    store = FolderStore(disk, FOLDER)
    store.put(KEY, BytesSource(b"x"), metadata={})
    before = len(disk.trace)
    store.put(OTHER, BytesSource(b"x"), metadata={})
    assert sum(" fsync " in line for line in disk.trace[before:]) == 1
