"""Verification of a lake: every kind of damage is found and told, and nothing is changed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lakebed.base.files import Disk
from lakebed.base.runner import ThreadRunner
from lakebed.base.simulation.world import World
from lakebed.seglake.errors import NoSuchBucket
from lakebed.seglake.lake_check import LakeCheck, join_lake, verify
from lakebed.seglake.model import CHUNK_BYTES, ObjectInfo, State
from lakebed.seglake.read_only import ReadOnlyLake
from lakebed.seglake.verification_plan import plan_lake
from lakebed.seglake.verification_report import Finding, Kind, Report
from tests.fakes.unreadable_disk import UnreadableDisk
from tests.seglake.damaged_lakes import (
    change_rows,
    files_of,
    flip,
    is_shared,
    manifest_file,
    manifest_of,
    reading,
    segment_file,
    writing,
)
from tests.seglake.lake_worlds import PATHS, ROOT, Machine

pytestmark = pytest.mark.thorough

BIG = bytes(range(256)) * (9 << 12)  # three chunks


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A closed lake: two keys, one of them with an old version, a marker and an upload."""
    with writing(tmp_path) as lake:
        lake.buckets.create("photos")
        lake.buckets.create("other")
        lake.objects.put("photos", "a/big", BIG)
        lake.objects.put("photos", "small", b"old")
        lake.objects.put("photos", "small", b"some bytes")
        lake.objects.delete("photos", "gone")
        lake.objects.put("other", "k", b"elsewhere")
        upload = lake.uploads.create("photos", "upload")
        lake.uploads.put_part("photos", "upload", upload.upload_id, 1, b"a part")
    return tmp_path


def check(
    root: Path, bucket: str | None = None, prefix: str = "", *, disk: Disk | None = None
) -> Report:
    with ThreadRunner() as runner, reading(root, disk=disk) as lake:
        return verify(lake, runner=runner, bucket=bucket, prefix=prefix)


def head(root: Path, key: str) -> ObjectInfo:
    with reading(root) as lake:
        return lake.objects.head("photos", key)


def flip_chunk(root: Path, key: str, *, index: int = 0, offset: int = 0) -> None:
    with reading(root) as lake:
        chunk = manifest_of(lake, "photos", key).chunks[index]
    flip(segment_file(root, chunk.segment_id), chunk.offset + offset)


def only_segment(root: Path) -> Path:
    [path] = (root / "objects" / "segments").iterdir()
    return path


def test_a_whole_lake_is_whole(root: Path) -> None:
    before = files_of(root, but=is_shared)
    report = check(root)
    assert (report.problems, report.notes) == ([], [])
    assert (report.versions, report.parts, report.segments) == (5, 1, 1)
    assert (report.chunks, report.manifest_files) == (3 + 1 + 1 + 1 + 1, 5)
    assert report.bytes == len(BIG) + len(b"old" + b"some bytes" + b"elsewhere" + b"a part")
    assert files_of(root, but=is_shared) == before


def test_where_nothing_was_stored_there_is_nothing_to_find(tmp_path: Path) -> None:
    assert check(tmp_path) == Report()
    assert list(tmp_path.iterdir()) == []


def test_a_bucket_that_is_missing_is_told(root: Path) -> None:
    with pytest.raises(NoSuchBucket):
        check(root, "missing")


def test_beside_its_writer_a_lake_is_whole(tmp_path: Path) -> None:
    with writing(tmp_path) as lake:
        lake.buckets.create("photos")
        lake.objects.put("photos", "big", BIG)
        with lake.objects.begin_put("photos", "next") as put:
            put.write(BIG)
            assert check(tmp_path).problems == []
            put.finish()
        assert check(tmp_path).problems == []
        assert check(tmp_path).versions == 2


@pytest.mark.parametrize("offset", [0, -1, -36])
def test_a_damaged_chunk_is_told_by_the_version_it_belongs_to(root: Path, offset: int) -> None:
    flip_chunk(root, "small", offset=offset)
    [problem] = check(root).problems
    assert problem.kind is Kind.OBJECT
    assert (problem.bucket, problem.key) == ("photos", "small")
    assert problem.version_id == head(root, "small").version_id
    assert ".seg: at byte " in problem.why
    assert head(root, "small").state is State.ACTIVE


def test_many_damaged_chunks_of_a_version_are_told_once(root: Path) -> None:
    for index in (0, 2):
        flip_chunk(root, "a/big", index=index)
    [problem] = check(root).problems
    assert problem.why.startswith("2 of 3 chunks are damaged; the first: ")


def test_old_versions_and_parts_are_read_too(root: Path) -> None:
    path = only_segment(root)
    data = path.read_bytes()
    for lost in (b"old", b"a part"):
        flip(path, data.index(lost))
    old, part = check(root).problems
    assert (old.key, old.kind) == ("small", Kind.OBJECT)
    assert old.version_id != head(root, "small").version_id
    assert (part.key, part.part_number, part.kind) == ("upload", 1, Kind.OBJECT)
    assert part.upload_id is not None


def test_only_what_was_asked_for_is_looked_at(root: Path) -> None:
    flip_chunk(root, "small")
    flip(only_segment(root), -1)
    assert check(root, "other").problems == []
    assert check(root, "photos", "a/").problems == []
    assert [one.key for one in check(root, "photos", "sm").problems] == ["small"]
    assert [one.key for one in check(root, "photos").problems] == ["small"]
    assert {one.kind for one in check(root).problems} == {Kind.OBJECT, Kind.SEGMENT}


@pytest.mark.parametrize("offset", [0, 7, -1, -40, -64, -100])
def test_a_damaged_end_or_header_of_a_segment_is_told(root: Path, offset: int) -> None:
    flip(only_segment(root), offset)
    [problem] = check(root).problems
    assert (problem.kind, problem.path) == (Kind.SEGMENT, str(only_segment(root)))


def test_a_segment_of_another_sealing_is_told(root: Path) -> None:
    change_rows(root, "UPDATE segments SET footer_checksum = ?", bytes(32))
    [problem] = check(root).problems
    assert "differs from the one recorded in the metadata" in problem.why


def test_a_segment_that_is_cut_or_missing_is_told_with_all_it_held(root: Path) -> None:
    path = only_segment(root)
    path.write_bytes(path.read_bytes()[:-1])
    [problem] = check(root).problems
    assert problem.kind is Kind.SEGMENT
    path.unlink()
    problems = check(root).problems
    assert [one.kind for one in problems].count(Kind.SEGMENT) == 1
    assert sorted(one.key for one in problems if one.key is not None) == [
        "a/big", "k", "small", "small", "upload",
    ]  # fmt: skip


def test_chunks_that_no_segment_is_recorded_for_are_told(root: Path) -> None:
    change_rows(root, "DELETE FROM segments")
    report = check(root)
    assert {one.kind for one in report.problems} == {Kind.OBJECT}
    assert len(report.problems) == 5
    assert len(report.notes) == 1  # the file: a crash could have left it so


def test_manifest_files_are_compared(root: Path) -> None:
    big, small = head(root, "a/big").version_id, head(root, "small").version_id
    flip(manifest_file(root, big), 20)
    manifest_file(root, small).unlink()
    stray = manifest_file(root, "ab" * 16)
    stray.parent.mkdir(exist_ok=True)
    stray.write_bytes(b"x")
    problems = check(root).problems
    assert {one.kind for one in problems} == {Kind.MANIFEST_FILE}
    assert [(one.key, one.why) for one in problems] == [
        ("a/big", "the file differs from the manifest in the metadata"),
        ("small", "the file is missing"),
        (None, "the file belongs to no version"),
    ]
    longer = manifest_file(root, small)
    with reading(root) as lake, lake.metadata.snapshot() as reader:
        data = reader.manifest(small)
    assert data is not None
    longer.write_bytes(data + b"x")
    assert [one.key for one in check(root, "photos", "small").problems] == ["small"]


def test_odd_files_are_noted(root: Path) -> None:
    (root / "objects" / "segments" / "notes.txt").touch()
    (root / "objects" / "segments" / f"{1:024x}.seg").touch()
    (root / "objects" / "manifests" / "zz").mkdir()
    report = check(root)
    assert report.problems == []
    assert len(report.notes) == 3


def test_a_folder_that_cannot_be_listed_is_reported_and_the_rest_is_checked(root: Path) -> None:
    whole = check(root)
    flip_chunk(root, "small")
    version_id = head(root, "small").version_id
    for name, kind in (
        ("segments", Kind.SEGMENT),
        ("manifests", Kind.MANIFEST_FILE),
        (version_id[:2], Kind.MANIFEST_FILE),
    ):
        report = check(root, disk=UnreadableDisk({}, unlisted=[name]))
        [folder] = [problem for problem in report.problems if problem.kind is kind]
        assert folder.path is not None
        assert Path(folder.path).name == name
        assert "Input/output error" in str(folder)
        assert [one.key for one in report.problems if one is not folder] == ["small"]
        assert replace(report, problems=[]) == whole


def test_metadata_that_cannot_be_read_is_reported_and_the_rest_is_checked() -> None:
    world = World(1)
    with Machine(world, "unreadable") as machine:
        with machine.open() as lake:
            lake.buckets.create("photos")
            lake.objects.put("photos", "small", b"some bytes")
        databases = machine.databases
        with ReadOnlyLake(
            ROOT, disk=world.disk, runner=world.runner, connector=databases.connect
        ) as reading_lake:
            plan = plan_lake(reading_lake)
        world.disk.faults.unreadable.add(PATHS.database)
        with (
            ReadOnlyLake(
                ROOT, disk=world.disk, runner=world.runner, connector=databases.connect
            ) as reading_lake,
            LakeCheck(reading_lake, runner=world.runner) as lake_check,
        ):
            assert {one.kind for one in plan_lake(reading_lake).problems} == {Kind.METADATA}
            findings = [lake_check.run(piece) for piece in plan.pieces]
    report = join_lake(plan, findings)
    assert report.segments == 1
    assert {(one.kind, one.path) for one in report.problems} == {(Kind.METADATA, PATHS.database)}


def test_a_damaged_manifest_in_the_metadata_is_told(root: Path) -> None:
    version_id = head(root, "small").version_id
    change_rows(
        root,
        "UPDATE manifests SET data = CAST(substr(data, 1, length(data) - 1) || x'00' AS BLOB) "
        "WHERE version_id = ?",
        version_id,
    )
    problems = check(root).problems
    assert (problems[0].kind, problems[0].version_id) == (Kind.METADATA, version_id)
    assert len(problems) == 1


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("UPDATE versions SET size = 7 WHERE key = CAST('small' AS BLOB)", "metadata differ"),
        ("UPDATE versions SET etag = 'x' WHERE key = CAST('a/big' AS BLOB)", "metadata differ"),
        ("DELETE FROM objects_current WHERE size = 10", "not recorded as the current version"),
        (
            "UPDATE objects_current SET etag = 'x' WHERE size = 10",
            "not recorded as the current version",
        ),
        ("UPDATE manifests SET data = NULL WHERE id = 1", "no manifest"),
    ],
)
def test_rows_that_do_not_agree_are_told(root: Path, sql: str, why: str) -> None:
    change_rows(root, sql)
    problems = check(root).problems
    assert any(why in one.why for one in problems)
    assert {one.kind for one in problems} == {Kind.METADATA}


def test_damaged_pages_of_the_metadata_are_told(root: Path) -> None:
    data = bytearray((root / "meta.db").read_bytes())
    for start in range(3 * 4096, len(data), 2 * 4096):
        data[start : start + 4096] = b"\xff" * 4096
    (root / "meta.db").write_bytes(data)
    report = check(root)
    assert Kind.METADATA in {one.kind for one in report.problems}


def test_what_was_marked_and_is_whole_again_is_noted(root: Path) -> None:
    flip_chunk(root, "small")
    with writing(root) as lake, pytest.raises(Exception, match="damaged"):
        lake.objects.get("photos", "small").read()
    assert head(root, "small").state is State.DAMAGED
    assert [one.key for one in check(root).problems] == ["small"]
    flip_chunk(root, "small")
    report = check(root)
    assert report.problems == []
    [note] = report.notes
    assert "marked as damaged, but intact" in note


def test_a_marked_version_is_not_intact_before_all_its_chunks_were_checked(root: Path) -> None:
    flip_chunk(root, "a/big")
    with writing(root) as lake, pytest.raises(Exception, match="damaged"):
        lake.objects.get("photos", "a/big").read()
    flip_chunk(root, "a/big")
    with ThreadRunner() as runner, writing(root) as lake, reading(root) as lake_read:
        plan = plan_lake(lake_read, bucket="photos", prefix="a/", bytes_max=CHUNK_BYTES)
        with LakeCheck(lake_read, runner=runner) as lake_check:
            findings = [lake_check.run(piece) for piece in plan.pieces]
            version_id = lake.objects.head("photos", "a/big").version_id
            lake.objects.delete("photos", "a/big", version_id=version_id)
            removed = [lake_check.run(piece) for piece in plan.pieces]
    versions, *of_chunks = findings
    assert [one.key for one in join_lake(plan, findings).whole_again] == ["a/big"]
    for number in range(3):
        for some in (
            [versions, *of_chunks[:number], removed[number + 1], *of_chunks[number + 1 :]],
            [versions, *of_chunks[:number], *of_chunks[number + 1 :]],
        ):
            report = join_lake(plan, some)
            assert (report.problems, report.whole_again, report.notes) == ([], [], [])


def test_a_version_is_damaged_once_even_if_some_of_it_was_not_checked(root: Path) -> None:
    for index in (0, 2):
        flip_chunk(root, "a/big", index=index)
    with ThreadRunner() as runner, reading(root) as lake:
        plan = plan_lake(lake, bucket="photos", prefix="a/", bytes_max=CHUNK_BYTES)
        with LakeCheck(lake, runner=runner) as lake_check:
            findings = [lake_check.run(piece) for piece in plan.pieces]
    findings[2] = Finding()
    [problem] = join_lake(plan, findings).problems
    assert problem.why.startswith("2 of 3 chunks are damaged; the first: ")


def test_what_is_removed_while_it_is_read_is_no_damage(tmp_path: Path) -> None:
    with ThreadRunner() as runner, writing(tmp_path) as lake, reading(tmp_path) as looking:
        lake.buckets.create("photos")
        for key in ("a", "b"):
            lake.objects.put("photos", key, BIG)
        version_id = lake.objects.head("photos", "b").version_id
        chunk = manifest_of(looking, "photos", "b").chunks[0]
        calls = 0

        def remove_the_next(_bytes: int) -> None:
            nonlocal calls
            calls += 1
            if calls == 1:
                lake.objects.delete("photos", "b", version_id=version_id)
                flip(segment_file(tmp_path, chunk.segment_id), chunk.offset)

        report = verify(looking, runner=runner, bucket="photos", progress=remove_the_next)
        assert (report.versions, report.problems) == (2, [])


def test_progress_counts_the_bytes_of_all_buckets(tmp_path: Path) -> None:
    with writing(tmp_path) as lake:
        for bucket in ("crates", "figs", "photos"):
            lake.buckets.create(bucket)
            lake.objects.put(bucket, "k", bucket.encode())
    counts: list[int] = []
    with ThreadRunner() as runner, reading(tmp_path) as lake_read:
        report = verify(lake_read, runner=runner, progress=counts.append)
    assert list(dict.fromkeys(counts)) == [6, 10, 16]
    assert report.bytes == 16


def test_many_versions_are_read_page_by_page(tmp_path: Path) -> None:
    with writing(tmp_path) as lake:
        lake.buckets.create("photos")
        puts = [lake.objects.begin_put("photos", f"{number % 2}") for number in range(250)]
        for number, put in enumerate(puts):
            put.write(b"%d" % number)
        for pending in [put.submit() for put in puts]:
            pending.wait()
    report = check(tmp_path)
    assert (report.versions, report.chunks, report.problems) == (250, 250, [])


def test_the_disk_counts_and_not_what_was_read_before(root: Path) -> None:
    with ThreadRunner() as runner, reading(root) as lake:
        for _ in range(3):
            assert lake.objects.get("photos", "small").read() == b"some bytes"
        flip_chunk(root, "small")
        assert len(_problems(lake, runner)) == 1


def _problems(lake: ReadOnlyLake, runner: ThreadRunner) -> list[str]:
    return [one.why for one in verify(lake, runner=runner).problems]
