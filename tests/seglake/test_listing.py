"""Pages of listings, compared with a model that looks at every key, and what they cost."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.seglake.errors import NoSuchBucket
from lakebed.seglake.listing import list_objects, list_uploads, list_versions
from lakebed.seglake.meta.database import Database
from lakebed.seglake.meta.reader import Reader
from lakebed.seglake.meta.rows import UploadRow, VersionRow
from lakebed.seglake.meta.writer import Writer
from lakebed.seglake.model import Page, State
from lakebed.seglake.stored_pages import StoredObjects
from lakebed.seglake.stored_rows import PartPage, StoredVersions
from tests.seglake.meta.samples import (
    BUCKET,
    bucket,
    marker,
    open_database,
    put,
    upload,
    version,
    write,
)


class Entry(NamedTuple):
    """What a page counts: an item, or a common prefix."""

    place: bytes
    name: str
    row: VersionRow | UploadRow | None


def entries(
    rows: list[VersionRow] | list[UploadRow], *, prefix: str, delimiter: str
) -> list[Entry]:
    """All entries of a listing, the slow way."""
    found: list[Entry] = []
    for row in rows:
        if not row.key.startswith(prefix):
            continue
        head, cut, _ = row.key[len(prefix) :].partition(delimiter) if delimiter else ("", "", "")
        if not cut:
            found.append(Entry(row.key.encode(), row.key, row))
        elif Entry((prefix + head + cut).encode(), prefix + head + cut, None) not in found:
            found.append(Entry((prefix + head + cut).encode(), prefix + head + cut, None))
    return sorted(found, key=lambda entry: entry.place)


def behind(found: list[Entry], marker: str, *, prefix: str, delimiter: str) -> list[Entry]:
    """Those behind a marker that is a key, a common prefix, or lies inside one."""
    place = marker.encode()
    if delimiter and marker.startswith(prefix):
        head, cut, _ = marker[len(prefix) :].partition(delimiter)
        place = (prefix + head + cut).encode()
    return [entry for entry in found if entry.place > place]


def names(page: Page[VersionRow]) -> list[str]:
    """Of a page, in order."""
    both = [row.key for row in page.items] + page.prefixes
    return sorted(both, key=str.encode)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with open_database(tmp_path_factory.mktemp("listing")) as database:
        yield database


def fill(database: Database, operation: Callable[[Writer], object]) -> None:
    """An empty bucket, and then what the operation puts there."""

    def apply(writer: Writer) -> None:
        for table in ("versions", "objects_current", "manifests", "multipart_uploads", "buckets"):
            writer.connection.execute(f"DELETE FROM {table}")  # noqa: S608
        writer.add_bucket(bucket())
        writer.add_bucket(bucket("neighbour"))
        put(version("a/neighbour", 10**6, name="neighbour"))(writer)
        operation(writer)

    write(database, apply)


def add_versions(rows: list[VersionRow]) -> Callable[[Writer], None]:
    def apply(writer: Writer) -> None:
        for row in rows:
            writer.add_version(row, b"m")

    return apply


ALPHABET = "ab/-\0\x7fé🔑\U0010ffff"
KEYS = st.text(ALPHABET, min_size=1, max_size=6)
PREFIXES = st.text(ALPHABET, max_size=3)
DELIMITERS = st.sampled_from(["", "/", "a", "-", "//", "/a", "é", "🔑", "\0"])
SIZES = st.integers(1, 5)


@given(
    keys=st.sets(KEYS, max_size=25),
    deleted=st.sets(KEYS, max_size=5),
    prefix=PREFIXES,
    delimiter=DELIMITERS,
    after=st.one_of(st.just(""), KEYS),
    size=SIZES,
)
def test_pages_of_objects_are_those_of_the_model(
    shared: Database,
    keys: set[str],
    deleted: set[str],
    prefix: str,
    delimiter: str,
    after: str,
    size: int,
) -> None:
    rows = [version(key, number) for number, key in enumerate(sorted(keys), 1)]
    markers = [marker(key, number) for number, key in enumerate(sorted(deleted), 1000)]
    fill(shared, lambda writer: [put(row)(writer) for row in (*rows, *markers)])
    live = [row for row in rows if row.key not in deleted]
    found = entries(live, prefix=prefix, delimiter=delimiter)
    expected = behind(found, after, prefix=prefix, delimiter=delimiter)
    with shared.snapshot() as reader:
        told, told_rows = [], []
        for count in itertools.count(1):
            page = list_objects(
                reader, BUCKET, prefix=prefix, delimiter=delimiter, after=after, max_keys=size
            )
            told += names(page)
            told_rows += page.items
            assert len(page.items) + len(page.prefixes) == min(
                size, len(expected) - size * (count - 1)
            )
            assert page.is_truncated == (size * count < len(expected))
            if page.next_marker is None:
                break
            assert page.next_marker == told[-1]
            after = page.next_marker
    assert told == [entry.name for entry in expected]
    assert told_rows == [entry.row for entry in expected if entry.row is not None]


VERSIONS = st.lists(st.tuples(KEYS, st.sampled_from(["put", "put", "mark", "null"])), max_size=25)


def history(actions: list[tuple[str, str]]) -> list[VersionRow]:
    """Versions by key, newest first; a key's last null version replaced those before."""
    rows: list[VersionRow] = []
    for number, (key, action) in enumerate(actions, 1):
        if action == "null":
            rows = [row for row in rows if row.key != key or not row.is_null]
        state = State.DELETED if action == "mark" else State.ACTIVE
        rows.append(version(key, number, state=state, is_null=action == "null"))
    return sorted(rows, key=lambda row: (row.key.encode(), -row.size))


@given(actions=VERSIONS, prefix=PREFIXES, delimiter=DELIMITERS, size=SIZES)
def test_pages_of_versions_are_those_of_the_model(
    shared: Database, actions: list[tuple[str, str]], prefix: str, delimiter: str, size: int
) -> None:
    rows = history(actions)
    fill(shared, add_versions(rows))
    expected = entries(rows, prefix=prefix, delimiter=delimiter)
    newest = {row.key: row for row in reversed(rows)}
    key_marker, id_marker, told, told_prefixes = "", None, [], []
    with shared.snapshot() as reader:
        while True:
            page = list_versions(
                reader,
                BUCKET,
                prefix=prefix,
                delimiter=delimiter,
                key_marker=key_marker,
                version_id_marker=id_marker,
                max_keys=size,
            )
            told += page.items
            told_prefixes += page.prefixes
            assert len(page.items) + len(page.prefixes) <= size
            if page.next_marker is None:
                break
            assert len(page.items) + len(page.prefixes) == size
            key_marker, id_marker = page.next_marker, page.next_id
    assert [item.row for item in told] == [entry.row for entry in expected if entry.row]
    assert told_prefixes == [entry.name for entry in expected if not entry.row]
    assert all(item.is_latest == (newest[item.row.key] == item.row) for item in told)


@given(
    uploads=st.sets(st.tuples(KEYS, st.sampled_from(["u1", "u2", "u3"])), max_size=20),
    prefix=PREFIXES,
    delimiter=DELIMITERS,
    size=SIZES,
)
def test_pages_of_uploads_are_those_of_the_model(
    shared: Database, uploads: set[tuple[str, str]], prefix: str, delimiter: str, size: int
) -> None:
    order = sorted(uploads, key=lambda one: (one[0].encode(), one[1]))
    rows = [upload(key, f"{name} {number}") for number, (key, name) in enumerate(order)]

    def add_uploads(writer: Writer) -> None:
        for row in rows:
            writer.add_upload(row)

    fill(shared, add_uploads)
    expected = entries(rows, prefix=prefix, delimiter=delimiter)
    key_marker, id_marker, told, told_prefixes = "", None, [], []
    with shared.snapshot() as reader:
        while True:
            page = list_uploads(
                reader,
                BUCKET,
                prefix=prefix,
                delimiter=delimiter,
                key_marker=key_marker,
                upload_id_marker=id_marker,
                max_uploads=size,
            )
            told += page.items
            told_prefixes += page.prefixes
            if page.next_marker is None:
                break
            assert len(page.items) + len(page.prefixes) == size
            key_marker, id_marker = page.next_marker, page.next_id
    assert told == [entry.row for entry in expected if entry.row]
    assert told_prefixes == [entry.name for entry in expected if not entry.row]


KEYS_OF_AWS = ["sample.jpg", "photos/2006/January/sample.jpg", "photos/2006/February/a", "z/"]


@pytest.mark.parametrize(
    ("prefix", "after", "items", "prefixes"),
    [
        ("", "", ["sample.jpg"], ["photos/", "z/"]),
        ("", "photos/", ["sample.jpg"], ["z/"]),
        ("", "photos/2006/February/a", ["sample.jpg"], ["z/"]),
        ("", "photos", ["sample.jpg"], ["photos/", "z/"]),
        ("photos/2006/", "", [], ["photos/2006/February/", "photos/2006/January/"]),
        ("photos/2006/", "photos/2006/February/", [], ["photos/2006/January/"]),
        ("z/", "", ["z/"], []),
        ("photos/", "zzz", [], []),
        ("photos/", "a", [], ["photos/2006/"]),
        ("", "\ud800", [], []),
    ],
)
def test_a_listing_is_grouped_and_goes_on_as_documented(
    shared: Database, prefix: str, after: str, items: list[str], prefixes: list[str]
) -> None:
    rows = [version(key, number) for number, key in enumerate(KEYS_OF_AWS, 1)]
    fill(shared, lambda writer: [put(row)(writer) for row in rows])
    with shared.snapshot() as reader:
        page = list_objects(reader, BUCKET, prefix=prefix, delimiter="/", after=after)
    assert ([row.key for row in page.items], page.prefixes) == (items, prefixes)
    assert not page.is_truncated


def test_a_page_of_nothing_is_not_truncated(shared: Database) -> None:
    fill(shared, lambda writer: put(version("a", 1))(writer))
    with shared.snapshot() as reader:
        assert list_objects(reader, BUCKET, max_keys=0) == Page([], [])
        assert list_versions(reader, BUCKET, max_keys=0) == Page([], [])
        assert list_uploads(reader, BUCKET, max_uploads=0) == Page([], [])


@pytest.mark.parametrize("only_current", [False, True])
@pytest.mark.parametrize("manifests", [False, True])
def test_a_stored_page_of_nothing_is_the_last(
    shared: Database, *, only_current: bool, manifests: bool
) -> None:
    def write_all(writer: Writer) -> None:
        put(version("a", 1))(writer)
        writer.add_upload(upload("a", "1"))

    fill(shared, write_all)
    stored = StoredObjects(shared)
    page = stored.versions(BUCKET, max_versions=0, only_current=only_current, manifests=manifests)
    assert page == StoredVersions([], has_more=False)
    assert stored.parts(BUCKET, max_parts=0) == PartPage([], None)
    with pytest.raises(NoSuchBucket):
        stored.versions("missing", max_versions=0)


def test_no_page_has_more_than_a_thousand(shared: Database) -> None:
    rows = [version(f"{number:04d}", number) for number in range(1, 1002)]
    fill(shared, lambda writer: [put(row)(writer) for row in rows])
    with shared.snapshot() as reader:
        page = list_objects(reader, BUCKET, max_keys=5000)
        assert len(page.items) == 1000
        assert page.next_marker == "1000"
        assert list_objects(reader, BUCKET, after="1000").items == [rows[-1]]


def test_versions_go_on_where_the_marked_one_was_deleted(shared: Database) -> None:
    rows = [version("a", number) for number in (5, 4, 3, 2, 1)]
    fill(shared, add_versions(rows))
    with shared.snapshot() as reader:
        page = list_versions(reader, BUCKET, max_keys=2)
    assert [item.row for item in page.items] == rows[:2]
    for row in rows[:2]:
        write(shared, partial(Writer.remove_version, version_id=row.version_id))
    with shared.snapshot() as reader:
        page = list_versions(
            reader, BUCKET, key_marker="a", version_id_marker=page.next_id, max_keys=2
        )
    assert [item.row for item in page.items] == rows[2:4]
    assert [item.is_latest for item in page.items] == [True, False]


def test_a_null_version_is_a_marker_by_that_name(shared: Database) -> None:
    rows = [version("a", 3), version("a", 2, is_null=True), version("a", 1)]
    fill(shared, add_versions(rows))
    with shared.snapshot() as reader:
        page = list_versions(reader, BUCKET, max_keys=2)
        assert page.next_id == "null"
        rest = list_versions(reader, BUCKET, key_marker="a", version_id_marker="null")
    assert [item.row for item in rest.items] == rows[2:]
    assert not rest.items[0].is_latest


def test_a_key_marker_alone_goes_on_behind_all_versions_of_the_key(shared: Database) -> None:
    rows = [version("a", 2), version("a", 1), version("b", 3)]
    fill(shared, add_versions(rows))
    with shared.snapshot() as reader:
        page = list_versions(reader, BUCKET, key_marker="a")
    assert [item.row for item in page.items] == rows[2:]


def steps(reader: Reader, ask: Callable[[Reader], object]) -> int:
    """How many steps SQLite's machine takes to answer."""
    counts: list[int] = []

    def note(event: dict[str, Any]) -> None:
        counts.append(event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"])

    reader.connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, note)
    ask(reader)
    reader.connection.trace_v2(0, None)
    return sum(counts)


QUESTIONS: list[Callable[[Reader], object]] = [
    lambda reader: list_objects(reader, BUCKET, max_keys=10),
    lambda reader: list_objects(reader, BUCKET, after="p5/", max_keys=10),
    lambda reader: list_objects(reader, BUCKET, delimiter="/", max_keys=5),
    lambda reader: list_objects(reader, BUCKET, prefix="p5", delimiter="/"),
    lambda reader: list_versions(reader, BUCKET, delimiter="/", max_keys=5),
    lambda reader: list_versions(reader, BUCKET, key_marker="p5/", max_keys=10),
    lambda reader: reader.is_empty(BUCKET),
    lambda reader: reader.current_manifest(BUCKET, "p5/k00001"),
    lambda reader: reader.last_hlc(),
]


def test_what_a_page_costs_does_not_grow_with_the_bucket(tmp_path: Path) -> None:
    """Nor with the keys below a prefix, the delete markers and the old versions in between."""
    costs = []
    for size in (20, 400):
        (tmp_path / str(size)).mkdir()
        with open_database(tmp_path / str(size)) as database:
            write(database, lambda writer: writer.add_bucket(bucket()))
            numbers = itertools.count(1)
            rows = [
                make(f"p{group}/{kind}{number:05d}", next(numbers))
                for group in range(10)
                for number in range(size)
                for kind, make in (("d", version), ("d", marker), ("k", version), ("k", version))
            ]
            write(database, lambda writer, rows=rows: [put(row)(writer) for row in rows])  # type: ignore[misc]
            with database.snapshot() as reader:
                costs.append([steps(reader, ask) for ask in QUESTIONS])
    assert costs[0] == costs[1]
