"""`lakebed s3` on damaged files: found, told, exit code 65, and no wrong byte handed out."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from lakebed.host.store import Store
from tests.cli.in_process import Run
from tests.seglake.damaged_lakes import flip, manifest_file, manifest_of

pytestmark = pytest.mark.thorough

BIG = Random(1).randbytes(9 << 20)  # three chunks
CHUNK_BYTES = 4 << 20


@pytest.fixture
def damaged(run: Run, root: Path) -> str:
    """The id of a version of `photos/big` whose second chunk has a flipped bit."""
    run("s3", "buckets", "create", "photos")
    run("s3", "put", "photos/good", "-", stdin=b"whole")
    run("s3", "put", "photos/big", "-", stdin=BIG)
    with Store.open(root, read_only=True) as store:
        manifest = manifest_of(store.lake, "photos", "big")
    chunk = manifest.chunks[1]
    flip(root / "objects" / "segments" / f"{chunk.segment_id}.seg", chunk.offset + 1000)
    return manifest.version_id


def test_a_damaged_object_leaves_no_file_behind(run: Run, tmp_path: Path, damaged: str) -> None:
    done = run("s3", "get", "photos/big", tmp_path / "target")
    assert (done.exit_code, done.out) == (65, b"")
    assert "the chunk is damaged" in done.error_line()
    assert [path.name for path in tmp_path.iterdir()] == ["root"]


def test_a_damaged_object_leaves_the_file_that_was_there(
    run: Run, tmp_path: Path, damaged: str
) -> None:
    target = tmp_path / "target"
    target.write_bytes(b"before")
    assert run("s3", "get", "photos/big", target).exit_code == 65
    assert target.read_bytes() == b"before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["root", "target"]


def test_standard_output_has_what_comes_before_the_damage(run: Run, damaged: str) -> None:
    done = run("s3", "get", "photos/big")
    assert done.exit_code == 65
    assert done.out == BIG[:CHUNK_BYTES]
    assert "the chunk is damaged" in done.error_line()


def test_what_is_not_damaged_can_be_got(run: Run, damaged: str) -> None:
    assert run("s3", "get", "photos/good").out == b"whole"
    assert run("s3", "get", "photos/big", "--range", "0-9").out == BIG[:10]
    assert run("s3", "get", "photos/big", "--range", "-10").out == BIG[-10:]
    assert run("s3", "get", "photos/big", "--range", f"{CHUNK_BYTES}-").out == b""


def test_verify_tells_what_is_damaged_and_changes_nothing(
    run: Run, root: Path, damaged: str
) -> None:
    done = run("s3", "verify")
    assert (done.exit_code, done.err) == (65, b"")
    [line] = done.out.decode().splitlines()
    assert line.startswith(f"object photos/big, version {damaged}: 1 of 3 chunks are damaged; ")
    document = run("s3", "verify", as_json=True).document()
    assert document["ok"] is False
    [problem] = document["problems"]
    assert (problem["kind"], problem["key"], problem["version_id"]) == ("object", "big", damaged)
    assert run("s3", "verify", "photos/good").exit_code == 0
    assert run("s3", "stat", "photos/big", as_json=True).document()["state"] == "ACTIVE"


def test_verify_tells_of_segments_and_manifest_files(run: Run, root: Path) -> None:
    run("s3", "buckets", "create", "photos")
    version_id = run("s3", "put", "photos/k\n", "-", stdin=b"x", as_json=True).document()[
        "version_id"
    ]
    segment = next(iter((root / "objects" / "segments").iterdir()))
    flip(segment, -1)
    manifest_file(root, version_id).unlink()
    (root / "objects" / "segments" / "odd").touch()
    done = run("s3", "verify")
    assert done.exit_code == 65
    first, second, note = done.out.decode().splitlines()
    assert first.startswith(f"segment {segment}: ")
    assert second == (
        f"manifest file {manifest_file(root, version_id)} of photos/k\\n, "
        f"version {version_id}: the file is missing"
    )
    assert note == f"note: {segment.parent / 'odd'}: unexpected file; not a segment"
    assert run("s3", "get", "photos/k\n").out == b"x"


def test_damage_can_be_overwritten_and_removed(run: Run, damaged: str) -> None:
    run("s3", "put", "photos/big", "-", stdin=b"new")
    assert run("s3", "get", "photos/big").out == b"new"
    assert run("s3", "verify").exit_code == 65
    run("s3", "rm", "photos/big", "--version-id", damaged)
    assert run("s3", "verify").exit_code == 0
