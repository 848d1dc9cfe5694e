"""What is written through the writer is read back through the reader."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lakebed.base.clock import HybridTime
from lakebed.base.errors import AlreadyExists, LakebedError
from lakebed.seglake.meta.database import Database
from lakebed.seglake.meta.reader import KEYS_END
from lakebed.seglake.meta.rows import (
    OPEN,
    SEALED,
    TO_BE_REMOVED,
    TO_BE_WRITTEN,
    OplogRow,
    PartRow,
    PendingManifest,
    SegmentRow,
)
from lakebed.seglake.model import State, Versioning
from tests.seglake.meta.samples import (
    BUCKET,
    SITE,
    bucket,
    hlc,
    manifest_of,
    marker,
    put,
    upload,
    version,
    write,
)

ODD_KEYS = [
    "a",
    "/",
    "//",
    "..",
    "../../etc/passwd",
    "\0",
    "a\0b",
    "\n\r\t\x7f",
    "ключ/鍵/🔑",
    "\U0010ffff",
    "é" * 512,
    "x" * 1024,
]


def test_buckets_are_listed_by_name(database: Database) -> None:
    suspended = bucket("archive", Versioning.SUSPENDED)
    write(database, lambda writer: writer.add_bucket(suspended))
    with database.snapshot() as reader:
        assert reader.buckets() == [suspended, bucket()]
        assert reader.bucket("archive") == suspended
        assert reader.bucket("nothing") is None


def test_versioning_of_a_bucket_is_changed(database: Database) -> None:
    write(database, lambda writer: writer.set_versioning(BUCKET, Versioning.SUSPENDED))
    with database.snapshot() as reader:
        assert reader.buckets() == [bucket(versioning=Versioning.SUSPENDED)]


def test_a_bucket_is_added_once(database: Database) -> None:
    with pytest.raises(AlreadyExists):
        write(database, lambda writer: writer.add_bucket(bucket()))


@pytest.mark.parametrize("key", ODD_KEYS)
def test_a_version_is_found_by_each_of_its_names(database: Database, key: str) -> None:
    row = version(key, 1, is_null=True)
    write(database, put(row))
    with database.snapshot() as reader:
        assert reader.current(BUCKET, key) == row
        assert reader.current_manifest(BUCKET, key) == (row, manifest_of(row))
        assert reader.version(BUCKET, key, row.version_id) == row
        assert reader.null_version(BUCKET, key) == row
        assert reader.newest(BUCKET, key) == row
        assert reader.manifest(row.version_id) == manifest_of(row)


def test_a_version_id_of_another_key_or_bucket_finds_nothing(database: Database) -> None:
    row = version("a", 1)
    write(database, put(row))
    with database.snapshot() as reader:
        assert reader.version(BUCKET, "b", row.version_id) is None
        assert reader.version("other", "a", row.version_id) is None
        assert reader.version(BUCKET, "a", "0" * 32) is None
        assert reader.current(BUCKET, "b") is None
        assert reader.current_manifest(BUCKET, "b") is None
        assert reader.null_version(BUCKET, "a") is None
        assert reader.manifest("0" * 32) is None


def test_what_is_no_text_is_not_found(database: Database) -> None:
    with database.snapshot() as reader:
        assert reader.current(BUCKET, "\ud800") is None


def test_the_newest_is_by_hybrid_time_and_then_by_site(database: Database) -> None:
    rows = [
        version("a", 3),
        version("a", 1),
        replace(version("a", 2), hlc=hlc(3), site_id="f" * 16),
    ]
    for row in rows:
        write(database, lambda writer, row=row: writer.add_version(row, b"m"))  # type: ignore[misc]
    with database.snapshot() as reader:
        assert reader.newest(BUCKET, "a") == rows[2]
        assert reader.newest(BUCKET, "a", excluding=rows[2].version_id) == rows[0]
        found = reader.versions_from(BUCKET, start=b"", end=KEYS_END)
        assert list(found) == [rows[2], rows[0], rows[1]]
        assert list(reader.versions_older(rows[2])) == [rows[0], rows[1]]


def test_a_delete_marker_is_current_and_no_object(database: Database) -> None:
    write(database, put(version("a", 1)))
    hidden = marker("a", 2)
    write(database, put(hidden))
    with database.snapshot() as reader:
        assert reader.current(BUCKET, "a") == hidden
        assert reader.current_manifest(BUCKET, "a") == (hidden, manifest_of(hidden))
        assert list(reader.current_from(BUCKET, start=b"", end=KEYS_END)) == []


def test_the_version_below_a_removed_marker_is_current_again(database: Database) -> None:
    first, second = version("a", 1), marker("a", 2)
    write(database, put(first))
    write(database, put(second))
    write(database, lambda writer: writer.remove_version(second.version_id))
    write(database, lambda writer: writer.set_current(first))
    with database.snapshot() as reader:
        assert reader.current(BUCKET, "a") == first
        assert reader.current_manifest(BUCKET, "a") == (first, manifest_of(first))


def test_without_versions_nothing_is_current(database: Database) -> None:
    row = version("a", 1)
    write(database, put(row))
    write(database, lambda writer: writer.remove_version(row.version_id))
    write(database, lambda writer: writer.clear_current(BUCKET, "a"))
    with database.snapshot() as reader:
        assert reader.current(BUCKET, "a") is None
        assert reader.is_empty(BUCKET)


def test_a_key_has_one_null_version(database: Database) -> None:
    write(database, put(version("a", 1, is_null=True)))
    with pytest.raises(AlreadyExists):
        write(database, put(version("a", 2, is_null=True)))
    write(database, put(version("b", 3, is_null=True)))


def test_a_state_is_changed_wherever_it_is_kept(database: Database) -> None:
    old, new = version("a", 1), version("a", 2)
    write(database, put(old))
    write(database, put(new))
    write(database, lambda writer: writer.set_state(old.version_id, State.CONFLICT))
    with database.snapshot() as reader:
        assert reader.current(BUCKET, "a") == new
    write(database, lambda writer: writer.set_state(new.version_id, State.DAMAGED))
    with database.snapshot() as reader:
        assert reader.current(BUCKET, "a") == replace(new, state=State.DAMAGED)
        found = list(reader.versions_from(BUCKET, start=b"", end=KEYS_END))
        assert [row.state for row in found] == [State.DAMAGED, State.CONFLICT]


def test_old_versions_fill_a_bucket_and_markers_and_uploads_do_not(database: Database) -> None:
    row = version("a", 1)

    def is_empty() -> bool:
        with database.snapshot() as reader:
            return reader.is_empty(BUCKET)

    assert is_empty()
    write(database, put(row))
    assert not is_empty()
    write(database, put(marker("a", 2)))
    assert not is_empty()
    write(database, lambda writer: writer.remove_version(row.version_id))
    assert is_empty()
    write(database, lambda writer: writer.add_upload(upload("a", "u1")))
    assert is_empty()


def test_a_removed_bucket_leaves_files_to_be_removed_and_nothing_else(database: Database) -> None:
    other = version("a", 9, name="other")
    write(database, lambda writer: writer.add_bucket(bucket("other")))
    write(database, put(other))
    gone = marker("a", 1)
    write(database, put(gone))
    write(database, lambda writer: writer.add_upload(upload("a", "u1")))
    write(database, lambda writer: writer.put_part(part("u1", 1)))
    write(database, lambda writer: writer.remove_markers(BUCKET, 10))
    write(database, lambda writer: writer.remove_bucket(BUCKET))
    with database.snapshot() as reader:
        assert reader.buckets() == [bucket("other")]
        assert reader.upload("u1") is None
        assert reader.parts("u1") == []
        assert reader.newest(BUCKET, "a") is None
        assert reader.current("other", "a") == other
        pending = reader.pending_manifests(10)
        assert (gone.version_id, TO_BE_REMOVED, None) in pending
        assert len(pending) == 2


def test_manifests_are_told_in_pages(database: Database) -> None:
    rows = [version(f"k{number}", number) for number in range(1, 8)]
    rows.sort(key=lambda row: row.version_id)
    for row in rows:
        write(database, put(row))
    write(database, lambda writer: writer.remove_version(rows[2].version_id))
    found: list[tuple[str, bytes]] = []
    with database.snapshot() as reader:
        while page := reader.manifests(found[-1][0] if found else "", 2):
            assert len(page) <= 2
            found += page
    kept = [row for row in rows if row != rows[2]]
    assert found == [(row.version_id, manifest_of(row)) for row in kept]


def test_manifest_files_are_pending_until_they_are_marked(database: Database) -> None:
    first, second = version("a", 1), version("b", 2)
    write(database, put(first))
    write(database, put(second))
    with database.snapshot() as reader:
        assert reader.pending_manifests(1) == [
            PendingManifest(first.version_id, TO_BE_WRITTEN, manifest_of(first))
        ]
    written = [first.version_id, second.version_id]
    write(database, lambda writer: writer.mark_manifest_files(written=written))
    with database.snapshot() as reader:
        assert reader.pending_manifests(10) == []
        assert reader.manifest(first.version_id) == manifest_of(first)
    write(database, lambda writer: writer.remove_version(first.version_id))
    with database.snapshot() as reader:
        assert reader.pending_manifests(10) == [(first.version_id, TO_BE_REMOVED, None)]
        assert reader.manifest(first.version_id) is None
    write(database, lambda writer: writer.mark_manifest_files(removed=[first.version_id]))
    with database.snapshot() as reader:
        assert reader.pending_manifests(10) == []


def test_a_version_removed_while_its_file_was_written_stays_to_be_removed(
    database: Database,
) -> None:
    row = version("a", 1)
    write(database, put(row))
    write(database, lambda writer: writer.remove_version(row.version_id))
    write(database, lambda writer: writer.mark_manifest_files(written=[row.version_id]))
    with database.snapshot() as reader:
        assert reader.pending_manifests(10) == [(row.version_id, TO_BE_REMOVED, None)]


def test_a_version_that_is_kept_is_not_marked_removed(database: Database) -> None:
    row = version("a", 1)
    write(database, put(row))
    write(database, lambda writer: writer.mark_manifest_files(removed=[row.version_id]))
    with database.snapshot() as reader:
        assert reader.manifest(row.version_id) == manifest_of(row)


def test_the_row_of_a_new_version_never_takes_the_place_of_a_file_to_be_removed(
    database: Database,
) -> None:
    first, second = version("a", 1), version("b", 2)
    write(database, put(first))
    write(database, lambda writer: writer.remove_version(first.version_id))
    write(database, put(second))
    with database.snapshot() as reader:
        assert reader.current_manifest(BUCKET, "b") == (second, manifest_of(second))
        assert len(reader.pending_manifests(10)) == 2


def segment(state: str, size: int, checksum: bytes | None = None) -> SegmentRow:
    return SegmentRow("0123", state, size, checksum, 5, 9 if state == SEALED else None)


@pytest.mark.parametrize(
    ("rows", "kept"),
    [
        ([segment(OPEN, 10), segment(OPEN, 20)], segment(OPEN, 20)),
        ([segment(OPEN, 20), segment(OPEN, 10)], segment(OPEN, 20)),
        ([segment(OPEN, 20), segment(SEALED, 30, b"c")], segment(SEALED, 30, b"c")),
        ([segment(SEALED, 30, b"c"), segment(OPEN, 20)], segment(SEALED, 30, b"c")),
        ([segment(SEALED, 30, b"c"), segment(OPEN, 40)], segment(SEALED, 30, b"c")),
        ([segment(OPEN, 30), segment(SEALED, 0)], segment(SEALED, 0)),
    ],
)
def test_segments_are_put_in_any_order(
    database: Database, rows: list[SegmentRow], kept: SegmentRow
) -> None:
    for row in rows:
        write(database, lambda writer, row=row: writer.put_segment(row))  # type: ignore[misc]
    with database.snapshot() as reader:
        assert reader.segments() == [kept]


def part(upload_id: str, number: int, etag: str = "e") -> PartRow:
    return PartRow(upload_id, number, etag, 5, 6, b"chunks", "{}")


def test_parts_replace_one_another_and_go_with_their_upload(database: Database) -> None:
    begun = upload("a/b", "u1")
    write(database, lambda writer: writer.add_upload(begun))
    for number in (3, 1, 2):
        row = part("u1", number)
        write(database, lambda writer, row=row: writer.put_part(row))  # type: ignore[misc]
    write(database, lambda writer: writer.put_part(part("u1", 2, "new")))
    write(database, lambda writer: writer.put_part(part("u2", 1)))
    with database.snapshot() as reader:
        assert reader.upload("u1") == begun
        assert reader.parts("u1") == [part("u1", 1), part("u1", 2, "new"), part("u1", 3)]
        assert reader.parts("u1", after=1, limit=1) == [part("u1", 2, "new")]
    write(database, lambda writer: writer.remove_upload("u1"))
    with database.snapshot() as reader:
        assert reader.upload("u1") is None
        assert reader.parts("u1") == []
        assert reader.parts("u2") == [part("u2", 1)]


def test_the_operation_log_keeps_the_order_of_happening(database: Database) -> None:
    for number in (5, 2):
        stamp = hlc(number)
        write(
            database,
            lambda writer, stamp=stamp: writer.add_oplog(  # type: ignore[misc]
                hlc=stamp, site_id=SITE, op="put", bucket=BUCKET, key="k/é", size=3
            ),
        )
    with database.snapshot() as reader:
        assert reader.oplog() == [
            OplogRow(1, hlc(5), SITE, "put", BUCKET, "k/é", "", 3),
            OplogRow(2, hlc(2), SITE, "put", BUCKET, "k/é", "", 3),
        ]
        assert [row.sequence for row in reader.oplog(after=1)] == [2]


def test_the_clock_goes_on_from_the_last_change(database: Database) -> None:
    def last() -> HybridTime | None:
        with database.snapshot() as reader:
            return reader.last_hlc()

    assert last() is None
    write(database, lambda writer: writer.add_objects([(version("a", 7), b"m")], op="put"))
    assert last() == HybridTime(7, 0)
    write(
        database,
        lambda writer: writer.add_oplog(hlc=hlc(9), site_id=SITE, op="x", bucket=BUCKET),
    )
    assert last() == HybridTime(9, 0)


def test_the_same_version_is_not_added_twice(database: Database) -> None:
    row = version("a", 1)
    results = database.write([put(row), put(row), put(version("b", 2))])
    assert [isinstance(result, LakebedError) for result in results] == [False, True, False]
    assert isinstance(results[1], AlreadyExists)
