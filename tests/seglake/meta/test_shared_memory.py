"""SQLite's shared memory on a full disk: an error, and never a signal that ends the process."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakebed.base.units import GIB, KIB, MIB
from lakebed.seglake.meta.shared_memory import Room, lacks_room_to_commit, lacks_room_to_open

REGION = 32 * KIB
MAKE = """
import lakebed
with lakebed.Store.open("root") as store:
    store.bucket("photos").put("a", b"b")
"""
OPEN = """
import sys
import lakebed
from lakebed.base.errors import NoSpace
try:
    with lakebed.Store.open("root", read_only=sys.argv[1] == "read") as store:
        print(store.bucket("photos").get("a").read())
except NoSpace as error:
    print("NoSpace")
"""
COMMIT = """
import os, sys
import apsw
from lakebed.seglake.meta.connection import connect
connection = connect(os.path.abspath("test.db"))
connection.pragma("journal_mode", "wal")
connection.pragma("synchronous", "off")
connection.wal_autocheckpoint(0)
connection.execute("CREATE TABLE numbers (number)")
while os.path.getsize("test.db-wal") < 4056 * 4120:  # at 4063 frames the shared memory grows
    connection.execute("INSERT INTO numbers VALUES (1)")
with open("filler", "wb", buffering=0) as filler:
    while os.statvfs(".").f_bavail > int(sys.argv[1]):
        filler.write(b"x" * 1024)
try:
    for _ in range(20):
        connection.execute("INSERT INTO numbers VALUES (1)")
except apsw.FullError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("room", "is_refused"),
    [
        (Room(0, 0, 0, 0), True),
        (Room(0, 0, 0, REGION), True),
        (Room(0, 0, 0, 4 * REGION), False),
        (Room(REGION, 9 * KIB, 0, 0), False),  # it is there already: a reader fills no hole
        (Room(REGION, REGION, 64 * MIB, 0), True),
        (Room(0, 0, GIB, 2 * REGION), True),
    ],
)
def test_a_connection_is_refused_if_the_file_would_outgrow_the_disk(
    room: Room, is_refused: bool
) -> None:
    assert lacks_room_to_open(room) is is_refused


@pytest.mark.parametrize(
    ("room", "is_refused"),
    [
        (Room(REGION, REGION, 0, 0), False),
        (Room(REGION, 9 * KIB, 0, 0), True),  # the first commit fills the holes
        (Room(REGION, 9 * KIB, 0, MIB), False),
        (Room(REGION, REGION, 64 * MIB, 0), True),
        (Room(REGION, REGION, 64 * MIB, 64 * MIB), False),
    ],
)
def test_a_commit_is_refused_if_it_might_fill_a_hole_that_the_disk_has_no_room_for(
    room: Room, is_refused: bool
) -> None:
    assert lacks_room_to_commit(room) is is_refused


@pytest.fixture
def small_blocks(tmp_path: Path) -> Iterator[Path]:
    """A file system with blocks of 1 KiB, and no room kept for the administrator."""
    image, folder = tmp_path / "image", tmp_path / "mounted"
    make = shutil.which("mkfs.ext4", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    mount, unmount = shutil.which("mount"), shutil.which("umount")
    if os.geteuid() or make is None or mount is None or unmount is None:
        pytest.skip("file systems cannot be made here")
    image.write_bytes(bytes(32 * MIB))
    folder.mkdir()
    subprocess.run([make, "-q", "-F", "-b", "1024", "-m", "0", image], check=True)
    if subprocess.run([mount, "-o", "loop", image, folder], check=False).returncode:
        pytest.skip("file systems cannot be mounted here")
    try:
        yield folder
    finally:
        subprocess.run([unmount, folder], check=True)


def run(folder: Path, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=folder, env={**os.environ, "LAKEBED_S3_RESERVE_BYTES": "0"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def fill(folder: Path, *, but_bytes: int) -> None:
    facts = os.statvfs(folder)
    with (folder / "filler").open("wb", buffering=0) as file:
        for size in (64 * KIB, KIB):
            while os.statvfs(folder).f_bavail * facts.f_frsize >= but_bytes + 2 * size:
                file.write(b"x" * size)


@pytest.mark.process
@pytest.mark.parametrize("mode", ["write", "read"])
@pytest.mark.parametrize("left_kib", [4, 9, 12, 16, 1024])
def test_a_store_on_a_full_disk_with_small_blocks_is_opened_or_refused(
    small_blocks: Path, mode: str, left_kib: int
) -> None:
    made = run(small_blocks, MAKE)
    assert (made.returncode, made.stderr) == (0, "")
    (small_blocks / "root" / "meta.db-shm").unlink(missing_ok=True)
    fill(small_blocks, but_bytes=left_kib * KIB)
    done = run(small_blocks, OPEN, mode)
    expected = "b'b'\n" if left_kib == 1024 else "NoSpace\n"
    assert (done.returncode, done.stdout) == (0, expected), done.stderr


@pytest.mark.process
@pytest.mark.parametrize("left_kib", [40, 56])
def test_a_commit_on_a_full_disk_with_small_blocks_is_refused(
    small_blocks: Path, left_kib: int
) -> None:
    done = run(small_blocks, COMMIT, str(left_kib))
    printed = "not enough disk space for test.db-shm\n"
    assert (done.returncode, done.stdout) == (0, printed), done.stderr
