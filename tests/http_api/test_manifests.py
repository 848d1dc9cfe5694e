"""Manifest logs through the API: their files as they stand, whatever is asked for by name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lakebed.aof.log import Aof
from lakebed.api import logs, manifests, media
from lakebed.api.problems import FileGone
from lakebed.base.errors import BadName, InputError, NotFound
from lakebed.seglake.errors import BadRange
from tests.cli.manifest_stores import (
    CONFIG,
    UNCOMMITTED,
    chunk_files,
    fill_chunks,
    flip,
    folder_of,
    journal_of,
    snapshot_files,
    write_segment,
)
from tests.http_api.live_api import Answer, LiveApi, open_api, target_of
from tests.http_api.log_apis import ORDERS
from tests.http_api.test_guard import FIRST, basic, guarding

CHUNK = "00000000000000000000.mlog"


@pytest.fixture
def live_api(tmp_path: Path) -> Iterator[LiveApi]:
    with open_api(tmp_path, config=CONFIG) as opened:
        yield opened


@pytest.fixture
def log(live_api: LiveApi) -> Aof:
    """With several chunks, and a snapshot."""
    log = live_api.store.log("orders")
    write_segment(log)
    fill_chunks(log, until=2)
    journal_of(log).take_snapshot()
    journal_of(log).commit()
    return log


@pytest.fixture
def root(live_api: LiveApi) -> Path:
    return Path(live_api.store.root)


def listed(live_api: LiveApi, **query: object) -> manifests.ManifestFiles:
    return live_api.call(manifests.LOG_MANIFEST, ORDERS, query)


def fetch(live_api: LiveApi, name: str, **query: object) -> Answer:
    names = {**ORDERS, "file": name}
    answer = live_api.ask("GET", target_of(manifests.LOG_MANIFEST_BYTES, names, query))
    if answer.status != 200:
        raise answer.problem
    assert answer.headers["content-type"] == media.BYTES
    return answer


@pytest.mark.parametrize("accept", [media.JSON, media.MSGPACK])
def test_the_files_are_those_of_the_folder(
    live_api: LiveApi, log: Aof, root: Path, accept: str
) -> None:
    found = live_api.call(manifests.LOG_MANIFEST, ORDERS, accept=accept)
    folder = folder_of(root)
    assert (found.log, found.stream, found.folder) == ("orders", folder.name, str(folder))
    assert [one.name for one in found.files] == sorted(path.name for path in folder.iterdir())
    assert [one.kind.value for one in found.files] == ["chunk"] * 3 + ["snapshot"]
    assert [one.is_sealed for one in found.files] == [True, True, False, True]
    for one in found.files:
        content = (folder / one.name).read_bytes()
        assert one.size == len(content)
        assert fetch(live_api, one.name).body == content
    end = journal_of(log).end
    committed = [one.committed_bytes for one in found.files]
    assert committed[2:] == [end.offset, found.files[3].size]
    assert found.next_after is None


def test_pages_of_any_size_have_all_files_once(live_api: LiveApi, log: Aof) -> None:
    assert log.name == "orders"
    everything = listed(live_api).files
    for size in (1, 3, 4, 1000):
        pages: list[manifests.ManifestFiles] = []
        after = ""
        while not pages or pages[-1].next_after is not None:
            pages.append(listed(live_api, after=after, max_files=size))
            assert len(pages) <= len(everything)
            after = pages[-1].next_after or ""
        assert [one for page in pages for one in page.files] == everything
        assert all(0 < len(page.files) <= size for page in pages)
    assert listed(live_api, after="snapshot_9").files == []
    for wrong in ({"max_files": 0}, {"max_files": 1001}, {"before": "x"}):
        with pytest.raises(InputError):
            listed(live_api, **wrong)


def test_a_range_is_cut_to_what_there_is(live_api: LiveApi, log: Aof, root: Path) -> None:
    assert log.name == "orders"
    whole = chunk_files(root)[0].read_bytes()
    answer = fetch(live_api, CHUNK, offset=10, length=20)
    assert (answer.body, answer.headers["lakebed-size"]) == (whole[10:30], str(len(whole)))
    assert fetch(live_api, CHUNK, offset=10, length=1 << 62).body == whole[10:]
    assert fetch(live_api, CHUNK, offset=len(whole)).body == b""
    with pytest.raises(BadRange) as told:
        fetch(live_api, CHUNK, offset=len(whole) + 1)
    assert told.value.size == len(whole)
    for wrong in ({"offset": -1}, {"length": 0}, {"length": -1}, {"ofset": 1}):
        with pytest.raises(InputError):
            fetch(live_api, CHUNK, **wrong)
    head = live_api.ask("HEAD", target_of(manifests.LOG_MANIFEST_BYTES, {**ORDERS, "file": CHUNK}))
    assert (head.status, head.body) == (200, b"")
    assert head.headers["content-length"] == str(len(whole))


HOSTILE = [
    "..", ".", "%2e%2e", "%2e%2e%2f%2e%2e", "..%2f..%2f..%2flog.json", "..%5c..%5clog.json",
    "%2fetc%2fpasswd", "%00", f"{CHUNK}%00", f"{CHUNK}%0a", f"%20{CHUNK}", f"{CHUNK}.tmp",
    f"..%2f{CHUNK}", f".%2f{CHUNK}", f"%2f{CHUNK}", "0.mlog", "1" * 21 + ".mlog",
    "-0000000000000000001.mlog", "%d9%a0" * 20 + ".mlog", CHUNK.upper(), "snapshot_1.bin",
    "snapshot_%2e%2e.bin", "secret", "secret.mlog", "*", "%2a.mlog", "x" * 5000,
    "99999999999999999999.mlog", "snapshot_99999999999999999999.bin",
]  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE, ids=lambda name: name[:40])
def test_a_name_that_no_such_file_has_leads_nowhere(
    live_api: LiveApi, log: Aof, root: Path, name: str
) -> None:
    assert log.name == "orders"
    for secret in ("secret", "secret.mlog", f"{CHUNK}.tmp", "0.mlog"):
        (folder_of(root) / secret).write_bytes(b"a secret")
    answer = live_api.ask("GET", f"/v1/logs/orders/manifest/{name}/bytes")
    assert answer.status == 404
    assert isinstance(answer.problem, FileGone)
    assert answer.json["code"] == "file-gone"
    assert "list the files again" in answer.json["advice"]
    assert {one.name for one in listed(live_api).files}.isdisjoint({"secret", "secret.mlog"})


@pytest.mark.parametrize("part", ["", "%ff", f"../manifest/{CHUNK}", f"/{CHUNK}"])
def test_a_path_that_is_none_is_refused(live_api: LiveApi, log: Aof, part: str) -> None:
    assert log.name == "orders"
    answer = live_api.ask("GET", f"/v1/logs/orders/manifest/{part}/bytes")
    assert (answer.status, answer.json["code"]) in [(400, "refused"), (404, "no-such-path")]


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("missing", "there is no log missing"),
        ("0123456789abcdef", "no log has the name or the stream id 0123456789abcdef"),
    ],
)
def test_a_log_that_is_not_there_has_no_manifest_log(
    live_api: LiveApi, name: str, problem: str
) -> None:
    for operation in (manifests.LOG_MANIFEST, manifests.LOG_MANIFEST_BYTES):
        with pytest.raises(NotFound, match=problem) as told:
            live_api.call(operation, {"log": name, "file": CHUNK})
        assert not isinstance(told.value, FileGone)
    assert live_api.call(logs.LIST_LOGS).logs == []


@pytest.mark.parametrize("name", ["..", "a/b", "a\0b", "x" * 300])
def test_what_is_no_name_of_a_log_is_refused(live_api: LiveApi, name: str) -> None:
    for operation in (manifests.LOG_MANIFEST, manifests.LOG_MANIFEST_BYTES):
        with pytest.raises(BadName):
            live_api.call(operation, {"log": name, "file": CHUNK})


def test_it_is_found_by_its_stream_and_the_log_is_not_opened(tmp_path: Path) -> None:
    with open_api(tmp_path, config=CONFIG) as live_api:
        write_segment(live_api.store.log("orders"))
        root = Path(live_api.store.root)
    before = {path: path.read_bytes() for path in folder_of(root).iterdir()}
    flip(chunk_files(root)[0], 70)
    damaged = {path: path.read_bytes() for path in folder_of(root).iterdir()}
    with open_api(tmp_path, config=CONFIG) as live_api:
        stream = folder_of(root).name
        found = live_api.call(manifests.LOG_MANIFEST, {"log": stream})
        assert (found.log, found.stream) == ("orders", stream)
        for path, content in damaged.items():
            assert fetch(live_api, path.name).body == content
        assert {path: path.read_bytes() for path in folder_of(root).iterdir()} == damaged
    assert damaged != before


def test_a_log_of_which_nothing_is_recorded_has_no_files(live_api: LiveApi) -> None:
    log = live_api.store.log("orders")
    found = listed(live_api)
    assert (found.log, found.stream, found.files) == ("orders", f"{log.stream_id:016x}", [])
    with pytest.raises(FileGone):
        fetch(live_api, CHUNK)
    (Path(live_api.store.root) / "aof" / "old" / "segments").mkdir(parents=True)
    old = live_api.call(manifests.LOG_MANIFEST, {"log": "old"})
    assert (old.log, old.stream, old.folder, old.files) == ("old", None, "", [])
    with pytest.raises(FileGone):
        live_api.call(manifests.LOG_MANIFEST_BYTES, {"log": "old", "file": CHUNK})


def test_a_file_that_was_removed_since_it_was_listed_is_told_as_gone(
    live_api: LiveApi, log: Aof, root: Path
) -> None:
    assert log.name == "orders"
    (snapshot,) = snapshot_files(root)
    assert snapshot.name in {one.name for one in listed(live_api).files}
    snapshot.unlink()
    with pytest.raises(FileGone, match="list its files again"):
        fetch(live_api, snapshot.name)
    assert [one.kind.value for one in listed(live_api).files] == ["chunk"] * 3


def test_damage_is_given_out_as_it_is(live_api: LiveApi, log: Aof, root: Path) -> None:
    assert log.name == "orders"
    first, second, _ = chunk_files(root)
    flip(first, 3)
    second.write_bytes(second.read_bytes()[:30])
    found = {one.name: one for one in listed(live_api).files}
    assert (found[first.name].committed_bytes, found[first.name].is_sealed) == (None, False)
    assert (found[second.name].committed_bytes, found[second.name].size) == (None, 30)
    for path in (first, second):
        assert fetch(live_api, path.name).body == path.read_bytes()


def test_how_far_the_last_chunk_is_committed_is_told(tmp_path: Path) -> None:
    with open_api(tmp_path, config=UNCOMMITTED) as live_api:
        log = live_api.store.log("orders")
        write_segment(log)
        journal = journal_of(log)
        journal.commit()
        (before,) = listed(live_api).files
        assert before.committed_bytes == journal.end.offset
        assert not before.is_sealed
        journal.take_snapshot()
        write_segment(log)
        journal.commit()
        after = listed(live_api).files[0]
        assert (after.name, after.size) == (before.name, before.size)
        assert after.committed_bytes == journal.end.offset > before.committed_bytes


def test_without_a_key_nothing_is_told(tmp_path: Path) -> None:
    with open_api(tmp_path, config=CONFIG, make_guard=guarding()) as live_api:
        log = live_api.store.log("orders")
        write_segment(log)
        journal_of(log).commit()
        for operation in (manifests.LOG_MANIFEST, manifests.LOG_MANIFEST_BYTES):
            target = target_of(operation, {**ORDERS, "file": CHUNK})
            assert live_api.ask("GET", target).status == 401
            assert live_api.ask("GET", target, headers=basic("root", "wrong")).status == 401
            assert live_api.ask("GET", target, headers=basic(*FIRST)).status == 200
