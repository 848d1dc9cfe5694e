"""Verifying a whole store: damage in each engine is found, in one go and in pieces alike."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from lakebed.base.errors import NotFound
from lakebed.keratin.format import LOG_HEADER
from lakebed.seglake.config import SeglakeConfig
from lakebed.seglake.errors import Damaged
from lakebed.seglake.model import State
from lakebed.seglake.verification_plan import ChunksPiece, UploadPiece, VersionsPiece
from lakebed.store.damage_marks import NamedVersion, versions_to_mark
from lakebed.store.lake_object_store import BUCKET
from lakebed.store.read_only import ReadOnlyStore
from lakebed.store.store import Store
from lakebed.store.store_check import (
    OBJECTS_BYTES,
    StoreCheck,
    StoreReport,
    Unchecked,
    join_store,
    plan_store,
    verify_store,
)
from lakebed.store.store_check_lines import report_lines
from tests.seglake.damaged_lakes import files_of, is_shared
from tests.store.whole_stores import (
    CHUNK,
    DAMAGES,
    damage_chunk,
    flip_chunk,
    open_store,
    topic_segment,
    write_store,
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Not to be changed."""
    root = tmp_path_factory.mktemp("whole") / "root"
    write_store(root)
    return root


@pytest.fixture
def root(whole: Path, tmp_path: Path) -> Iterator[Path]:
    """One of its own."""
    shutil.copytree(whole, tmp_path / "root")
    yield tmp_path / "root"
    shutil.rmtree(tmp_path / "root")


def in_pieces(root: Path, bytes_max: int) -> StoreReport:
    """In any order, each with a checker of its own."""
    with ReadOnlyStore(root) as store:
        plan = plan_store(store, bytes_max=bytes_max)
    pieces = list(enumerate(plan.pieces()))
    Random(bytes_max).shuffle(pieces)
    found = {}
    for number, piece in pieces:
        with ReadOnlyStore(root) as store, StoreCheck(store) as check:
            found[number] = check.run(piece)
    return join_store(plan, [found[number] for number in range(len(pieces))])


def test_a_whole_store_is_whole_and_nothing_is_changed(whole: Path) -> None:
    before = files_of(whole, but=is_shared)
    steps: list[tuple[int, int]] = []
    report = verify_store(whole, progress=lambda done, total: steps.append((done, total)))
    assert report.is_good
    assert [(log.name, log.report.segments) for log in report.logs] == [("orders", 7), ("other", 2)]
    orders = report.logs[0].report
    assert (orders.records, orders.warm_files, orders.objects) == (31, 1, 3)
    assert report.logs[0].manifest is not None
    [topic] = report.topics
    assert (topic.report.partitions, topic.report.segments, topic.report.records) == (2, 6, 120)
    assert (report.objects.versions, report.objects.parts) == (10 + 3, 1)
    assert report_lines(report)[-1] == "all whole"
    assert steps[-1][0] == steps[-1][1] > 0
    assert steps == sorted(steps)
    assert steps[-1][1] > report.objects.bytes  # they count, too
    assert files_of(whole, but=is_shared) == before


def test_without_tier_2_segments_that_only_it_has_are_not_read(whole: Path) -> None:
    report = verify_store(whole, tier2=False)
    assert report.logs[0].report.unread == [0, 1]
    assert report.logs[0].report.objects == 0
    assert "note: orders: not read: 2 segments that only Tier 2 has" in report_lines(report)


@pytest.mark.parametrize("tier2", [False, True])
def test_a_damaged_warm_file_or_object_is_not_reported_as_unread(
    root: Path, *, tier2: bool
) -> None:
    DAMAGES["warm"](root)
    DAMAGES["cold"](root)
    report = verify_store(root, tier2=tier2).logs[0].report
    assert len(report.problems) == (2 if tier2 else 1)
    assert report.unread == ([] if tier2 else [0, 1])


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_in_each_engine_is_found_and_in_no_other(root: Path, damage: str) -> None:
    DAMAGES[damage](root)
    report = verify_store(root)
    assert not report.is_good
    found = {
        "logs": len(report.logs[0].problems),
        "topics": len(report.topics[0].report.problems),
        "objects": len(report.objects.problems),
    }
    expected = {
        "hot": {"logs"},
        "warm": {"logs"},
        "cold": {"logs", "objects"},
        "topic": {"topics"},
        "chunk": {"objects"},
    }
    assert {name for name, count in found.items() if count} == expected[damage]
    assert report.problem_count == sum(found.values())
    assert report_lines(report)[-1].endswith(("problem", "problems"))


@pytest.mark.parametrize("bytes_max", [1, 4000, CHUNK, 1 << 40])
def test_pieces_in_any_order_give_the_same_report(root: Path, bytes_max: int) -> None:
    assert in_pieces(root, bytes_max) == verify_store(root)
    for damage in DAMAGES.values():
        damage(root)
    flip_chunk(root, "photos", "big", index=2)
    report = in_pieces(root, bytes_max)
    assert report == verify_store(root)
    assert report.problem_count > len(DAMAGES)


def test_a_large_object_is_cut_between_its_chunks(root: Path) -> None:
    """The last two of three chunks are damaged: told once, whichever pieces found them."""
    for index in (1, 2):
        flip_chunk(root, "photos", "big", index=index)
    [problem] = in_pieces(root, CHUNK).objects.problems
    assert problem.why.startswith("2 of 3 chunks are damaged; the first: ")


@pytest.mark.parametrize("bytes_max", [1000, CHUNK, OBJECTS_BYTES])
def test_progress_counts_the_bytes_of_objects_once(whole: Path, bytes_max: int) -> None:
    with ReadOnlyStore(whole) as store:
        plan = plan_store(store, bytes_max=bytes_max)
    kinds = VersionsPiece | ChunksPiece | UploadPiece
    sizes = [
        size
        for piece, size in zip(plan.pieces(), plan.sizes, strict=True)
        if isinstance(piece, kinds)
    ]
    assert sum(sizes) == verify_store(whole).objects.bytes


def test_versions_that_come_and_go_between_listing_and_reading_are_no_problem(root: Path) -> None:
    with ReadOnlyStore(root) as store:
        plan = plan_store(store, bytes_max=1)
    with open_store(root) as writer:
        plain = writer.bucket("plain")
        plain.put("key/00", b"came between two")
        plain.put("zzz", b"came at the end")
        plain.delete("key/3")
        writer.bucket("photos").delete("big", version_id=_version_id(root, "photos", "big"))
    with ReadOnlyStore(root) as store, StoreCheck(store) as check:
        report = join_store(plan, [check.run(piece) for piece in plan.pieces()])
    assert report.objects.problems == []
    assert report.objects.versions == 13 + 2 - 2


def test_what_cannot_be_checked_is_told_and_the_rest_is_checked(root: Path) -> None:
    identity = root / "topics" / "events" / "topic.json"
    identity.write_text("{")
    report = verify_store(root)
    assert not report.is_good
    [unchecked] = report.unchecked
    assert isinstance(unchecked, Unchecked)
    assert unchecked.what == "topic events"
    assert report.topics == ()
    assert report.logs[0].problems == []
    assert str(unchecked) in report_lines(report)
    assert report_lines(report)[-1] == "no problem found, but not all was checked"


def test_a_segment_of_a_newer_program_is_told_and_the_others_are_checked(root: Path) -> None:
    path = topic_segment(root, 1)
    data = path.read_bytes()
    header = LOG_HEADER.unpack(data)
    newer = header._replace(version=header.version + 1, header_length=header.header_length + 4)
    path.write_bytes(LOG_HEADER.pack(newer) + data[LOG_HEADER.size :])
    report = verify_store(root)
    assert [one.what for one in report.unchecked] == ["topic events, partition 0"]
    assert report.topics[0].report.segments == 5
    assert report.problem_count == 0
    assert not report.is_good
    assert in_pieces(root, CHUNK) == report


def test_a_store_with_nothing_in_it_is_whole(tmp_path: Path) -> None:
    with Store.open(tmp_path / "root"):
        pass
    report = verify_store(tmp_path / "root")
    assert report.is_good
    assert report_lines(report) == ["all whole"]
    with pytest.raises(NotFound):
        verify_store(tmp_path / "missing")


# Marks.


def test_the_writer_marks_what_is_damaged_and_only_that(root: Path) -> None:
    damage_chunk(root)
    versions = versions_to_mark(verify_store(root).objects)
    assert versions == [NamedVersion("photos", "big", _version_id(root, "photos", "big"))]
    others = [
        NamedVersion("photos", "small", _version_id(root, "photos", "small")),
        NamedVersion("plain", "key/1", "null"),
        NamedVersion("plain", "key/1", "0" * 32),
        NamedVersion("missing", "k", "null"),
    ]
    steps: list[tuple[int, int]] = []
    with open_store(root) as store:
        told = store.maintenance.mark_objects(
            versions + others, progress=lambda *step: steps.append(step)
        )
        assert store.bucket("photos").head("big").state is State.DAMAGED
        assert store.bucket("photos").head("small").state is State.ACTIVE
    assert told.marked == tuple(versions)
    assert told.whole == tuple(others[:2])
    assert told.gone == tuple(others[2:])
    assert told.failed == ()
    assert steps == [(number, 5) for number in range(1, 6)]
    assert versions_to_mark(verify_store(root).objects) == versions


def test_a_mark_is_made_of_what_is_on_the_disk_whatever_is_cached(root: Path) -> None:
    config = SeglakeConfig(reserve_bytes=0)
    with Store.open(root, object_config=config) as store:
        photos = store.bucket("photos")
        assert photos.read("small") == b"some bytes"
        flip_chunk(root, "photos", "small")
        assert photos.read("small") == b"some bytes", "it is cached"
        version = NamedVersion("photos", "small", photos.head("small").version_id)
        assert store.maintenance.mark_objects([version]).marked == (version,)
        assert photos.head("small").state is State.DAMAGED


def test_the_mark_of_an_object_that_is_whole_again_is_cleared(root: Path) -> None:
    flip_chunk(root, "photos", "small")
    versions = versions_to_mark(verify_store(root).objects)
    with open_store(root) as store:
        store.maintenance.mark_objects(versions)
    flip_chunk(root, "photos", "small")  # as from a backup
    report = verify_store(root)
    assert report.is_good
    assert versions_to_mark(report.objects) == versions
    with open_store(root) as store:
        photos = store.bucket("photos")
        assert photos.head("small").state is State.DAMAGED
        with pytest.raises(Damaged):
            photos.copy("small", "copy")
        assert store.maintenance.mark_objects(versions).whole == tuple(versions)
        assert photos.head("small").state is State.ACTIVE
        assert [row.state for row in photos.list("small")] == [State.ACTIVE]
        photos.copy("small", "copy")
    assert versions_to_mark(verify_store(root).objects) == []


def test_an_object_of_tier_2_is_marked_as_well(root: Path) -> None:
    DAMAGES["cold"](root)
    [version] = versions_to_mark(verify_store(root).objects)
    assert version.bucket == BUCKET
    with open_store(root) as store:
        assert store.maintenance.mark_objects([version]).marked == (version,)


def _version_id(root: Path, bucket: str, key: str) -> str:
    with ReadOnlyStore(root) as store:
        return store.bucket(bucket).head(key).version_id
