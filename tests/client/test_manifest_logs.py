"""Manifest logs: read the same embedded, over the socket and over TCP, by the engine's readers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lakebed.aof.manifest.files import ManifestFile
from lakebed.aof.manifest.paths import FileKind
from lakebed.aof.manifest.records import Position
from lakebed.aof.manifest.replay import Moment, ReplayResult, replay
from lakebed.api import manifests
from lakebed.api.problems import FileGone
from lakebed.base.errors import Closed, Corrupt, LakebedError, NotFound
from lakebed.client import manifest_folder
from lakebed.client.address import Address
from lakebed.client.errors import BadAnswer
from lakebed.client.manifest_files import ManifestFiles
from lakebed.client.manifest_log import RemoteManifestLog
from lakebed.client.segment_range import SegmentRange
from lakebed.client.store import RemoteStore
from lakebed.store.store import Store
from tests.cli.manifest_stores import (
    CONFIG,
    change,
    chunk_files,
    fill_chunks,
    flip,
    journal_of,
    snapshot_files,
    write_segment,
)
from tests.client.scripted import answer, document, says, scripted
from tests.http_api.live_api import HOST, LiveApi, open_api


def write(store: Store) -> None:
    """Several chunks, and a snapshot in one of them."""
    log = store.log("orders")
    write_segment(log)
    fill_chunks(log, until=1)
    journal_of(log).take_snapshot()
    write_segment(log)
    fill_chunks(log, until=2)


@pytest.fixture
def live_api(tmp_path: Path) -> Iterator[LiveApi]:
    with open_api(tmp_path, config=CONFIG) as opened:
        write(opened.store)
        yield opened


@contextmanager
def connected(live_api: LiveApi) -> Iterator[RemoteStore]:
    with RemoteStore(Address(host=HOST, port=live_api.port), retry_s=2.0) as remote:
        yield remote


def both(live_api: LiveApi, look: Callable[[Any], Any]) -> list[Any]:
    """What is found, or the error that is told: embedded and over the wire."""
    with connected(live_api) as remote:
        return [outcome(look, one.manifest_log("orders")) for one in (live_api.store, remote)]


def outcome(look: Callable[[Any], Any], found: Any) -> Any:
    try:
        return look(found)
    except LakebedError as error:
        return type(error), str(error)


def states(replayed: ReplayResult) -> tuple[Any, ...]:
    """All that a replay tells."""
    told = (replayed.end, replayed.record_count, replayed.next_ordinal, replayed.snapshot_id_max)
    damages = (replayed.damages, replayed.problems, replayed.crc_error_count)
    return (*told, *damages, list(replayed.index.segments()), replayed.snapshot)


LOOKS: list[Callable[[Any], Any]] = [
    lambda found: (found.log, found.stream, found.reader.paths.folder),
    lambda found: found.files(),
    lambda found: list(found.reader.records()),
    lambda found: list(found.reader.records(Position(1, 64), Position(2, 64))),
    lambda found: (found.reader.chunk_indexes(), found.reader.snapshot_ids()),
    lambda found: found.reader.start(),
    lambda found: states(replay(found.reader)),
    lambda found: states(replay(found.reader, Moment(position=Position(0, 64)))),
    lambda found: states(replay(found.reader, Moment(position=Position(1, 64)))),
    lambda found: found.reader.snapshot(1),
    lambda found: found.reader.snapshot(99),
    lambda found: found.reader.chunk(99),
]


@pytest.mark.parametrize("number", range(len(LOOKS)))
def test_what_is_read_is_the_same(live_api: LiveApi, number: int) -> None:
    embedded, remote = both(live_api, LOOKS[number])
    if number < len(LOOKS) - 2:
        assert remote == embedded
        assert remote
    else:
        assert embedded[0] is NotFound
        assert remote[0] is FileGone


def test_damage_is_told_in_the_same_words(live_api: LiveApi) -> None:
    root = Path(live_api.store.root)
    for path in snapshot_files(root):
        path.unlink()
    flip(chunk_files(root)[1], 64 + 50)
    embedded, remote = both(live_api, lambda found: list(found.reader.records()))
    assert embedded == remote
    assert embedded[0] is Corrupt
    embedded, remote = both(live_api, lambda found: states(replay(found.reader)))
    assert embedded == remote
    assert "the chunk's checksum does not match" in embedded[5][0]
    change(chunk_files(root)[1], 8, b"\x63")  # its version
    embedded, remote = both(live_api, lambda found: states(replay(found.reader)))
    assert embedded == remote
    chunk_files(root)[1].unlink()
    embedded, remote = both(live_api, lambda found: list(found.reader.records()))
    assert embedded == remote
    assert "the chunk is missing" in embedded[1]


def test_what_the_writer_commits_is_read_from_then_on(live_api: LiveApi) -> None:
    log = live_api.store.log("orders")
    with connected(live_api) as remote:
        found = remote.manifest_log("orders")
        assert found is not None
        counts = []
        for _ in range(3):
            write_segment(log)
            journal_of(log).commit()
            counts.append(len(list(found.reader.records())))
            assert counts[-1] == len(list(journal_of(log).reader().records()))
        assert counts == sorted(set(counts))


def test_only_what_is_opened_is_fetched(live_api: LiveApi, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched: list[tuple[str, int, int]] = []
    fetch = ManifestFiles.fetch

    def counting(self: ManifestFiles, name: str, *, offset: int, length: int) -> SegmentRange:
        found = fetch(self, name, offset=offset, length=length)
        fetched.append((name, offset, len(found.data)))
        return found

    monkeypatch.setattr(ManifestFiles, "fetch", counting)
    files = {path.name: path.stat().st_size for path in chunk_files(Path(live_api.store.root))}
    first, second, third = files
    with connected(live_api) as remote:
        found = remote.manifest_log("orders")
        assert found is not None
        found.files()
        assert fetched == []
        assert len(found.reader.chunk(1).records) > 1
        assert fetched == [(second, 0, files[second])]
        fetched.clear()
        replay(found.reader)
        (snapshot,) = snapshot_files(Path(live_api.store.root))
        sizes = [(second, 0, files[second]), (third, 0, files[third])]
        assert fetched == [(snapshot.name, 0, snapshot.stat().st_size), *sizes]
        assert first not in {name for name, *_ in fetched}, "the snapshot is behind it"


def test_a_file_that_is_larger_than_an_answer_comes_in_ranges(
    live_api: LiveApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifest_folder, "FETCH_BYTES", 1000)
    path = chunk_files(Path(live_api.store.root))[0]
    content = path.read_bytes()
    with connected(live_api) as remote:
        found = remote.manifest_log("orders")
        assert found is not None
        assert list(found.reader.records()) == list(
            journal_of(live_api.store.log("orders")).reader().records()
        )
        with found.reader.disk.open(path) as file:
            assert file.size() == len(content)
            for start, length in ((0, 10), (999, 2), (1000, 5000), (5, 1 << 40), (len(content), 9)):
                assert file.pread(start, length) == content[start : start + length]


def test_what_is_no_file_of_it_is_not_found(live_api: LiveApi) -> None:
    root = Path(live_api.store.root)
    path = chunk_files(root)[0]
    with connected(live_api) as remote:
        found = remote.manifest_log("orders")
        assert isinstance(found, RemoteManifestLog)
        disk = found.reader.disk
        assert disk.exists(path)
        assert disk.exists(path.parent)
        assert not disk.exists(path.parent / "other")
        assert disk.is_folder(path.parent)
        assert not disk.is_folder(path)
        assert disk.names(path.parent) == [one.name for one in found.files()]
        for wrong in (root / path.name, path.parent / "x" / path.name, path.name, ""):
            with pytest.raises(NotFound):
                disk.open(wrong)
        with pytest.raises(NotFound):
            disk.names(root)
        with pytest.raises(FileGone):
            disk.open(path.parent / "log.json")


def test_a_log_is_found_by_its_name_or_its_stream(store: Any) -> None:
    with pytest.raises(NotFound, match="there is no log payments"):
        store.manifest_log("payments")
    assert "payments" not in store.logs()
    log = store.log("payments")
    found = store.manifest_log("payments")
    assert (found.log, found.stream, found.files()) == ("payments", f"{log.stream_id:016x}", [])
    by_stream = store.manifest_log(found.stream)
    assert (by_stream.log, by_stream.stream) == (found.log, found.stream)
    with pytest.raises(NotFound):
        store.manifest_log("0123456789abcdef")


def test_the_kinds_of_files_are_told(live_api: LiveApi) -> None:
    for found in both(live_api, lambda one: one.files()):
        assert [one.kind for one in found] == [FileKind.CHUNK] * 3 + [FileKind.SNAPSHOT]
        assert [one.number for one in found] == [0, 1, 2, 1]
        assert [one.is_sealed for one in found] == [True, True, False, True]


def test_a_log_that_never_had_one_is_told_alike(live_api: LiveApi) -> None:
    (Path(live_api.store.root) / "aof" / "old" / "segments").mkdir(parents=True)
    with connected(live_api) as remote:
        assert remote.manifest_log("old") is None
    assert live_api.store.manifest_log("old") is None


def test_a_store_that_is_closed_has_none(tmp_path: Path, live_api: LiveApi) -> None:
    with Store.open(tmp_path / "other") as store:
        store.log("orders")
    with connected(live_api) as remote:
        pass
    for one in (store, remote):
        with pytest.raises(Closed):
            one.manifest_log("orders")


def chunk(name: str, *, number: int) -> ManifestFile:
    return ManifestFile(name, FileKind.CHUNK, number, 1, 1, is_sealed=True)


@pytest.mark.parametrize("name", ["../../etc/passwd", "", "0.mlog", "x" * 300, f"{1:020}.mlog"])
def test_an_answer_with_files_that_cannot_be_is_none(name: str) -> None:
    page = manifests.ManifestFiles("orders", "0" * 16, "/there", [chunk(name, number=0)], None)
    with (
        scripted(says(document(page)), says(document(page))) as server,
        RemoteStore(Address(host=HOST, port=server.port), retry_s=0) as store,
    ):
        found = store.manifest_log("orders")
        assert found is not None
        with pytest.raises(BadAnswer, match="a file whose name is not valid, or does not match"):
            found.files()


def test_files_that_are_more_than_a_page_are_all_listed() -> None:
    names = [f"{number:020}.mlog" for number in range(3)]
    pages = [
        manifests.ManifestFiles("orders", "0" * 16, "/there", [chunk(name, number=number)], after)
        for number, (name, after) in enumerate(zip(names, [names[0], names[1], None], strict=True))
    ]
    with (
        scripted(*(says(document(page)) for page in [pages[0], *pages])) as server,
        RemoteStore(Address(host=HOST, port=server.port), retry_s=0) as store,
    ):
        found = store.manifest_log("orders")
        assert found is not None
        assert [one.name for one in found.files()] == names
        asked = [seen.line.split()[1].rpartition("=")[2] for seen in server.seen[2:]]
        assert asked == names[:2]


def test_pages_that_go_round_in_a_circle_are_no_answer() -> None:
    page = manifests.ManifestFiles("orders", "0" * 16, "/there", [], "")
    with (
        scripted(says(document(page)), says(document(page))) as server,
        RemoteStore(Address(host=HOST, port=server.port), retry_s=0) as store,
    ):
        found = store.manifest_log("orders")
        assert found is not None
        with pytest.raises(BadAnswer, match="returned the same page again"):
            found.files()


def test_bytes_without_a_size_are_no_answer() -> None:
    page = manifests.ManifestFiles("orders", "0" * 16, "/there", [], None)
    data = answer(b"abc", "application/octet-stream")
    with (
        scripted(says(document(page)), says(data)) as server,
        RemoteStore(Address(host=HOST, port=server.port), retry_s=0) as store,
    ):
        found = store.manifest_log("orders")
        assert found is not None
        with pytest.raises(BadAnswer, match="Lakebed-Size"):
            found.reader.chunk(0)
