"""Bytes that no check foresees: `verify` reports them, and checks the rest."""

from __future__ import annotations

import re
from hashlib import md5
from pathlib import Path

import apsw
import pytest

from lakebed.store.store import Store
from lakebed.store.store_check import verify_store
from tests.cli.in_process import Run, runner


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "store"
    with Store.open(root) as store:
        store.bucket("photos").put("key", b"x" * 100)
        store.bucket("whole").put("other", b"y" * 100)
        topic = store.topics.create("orders", settings={"segment_bytes": "16KiB"})
        for _ in range(40):
            topic.append_batch([b"z" * 1000]).result()
        log = store.log("events")
        log.append_records([b"record"])
        log.flush()
    return root


@pytest.fixture
def run(
    root: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> Run:
    return runner(root, monkeypatch, capfdbinary)


def test_text_that_is_none_in_the_metadata_is_damage_of_the_metadata(root: Path, run: Run) -> None:
    database = root / "meta.db"
    data = database.read_bytes()
    etag = md5(b"x" * 100, usedforsecurity=False).hexdigest().encode()
    assert etag in data
    database.write_bytes(data.replace(etag, etag[:5] + b"\xff" + etag[6:]))
    report = verify_store(root)
    assert any("invalid text" in problem.why for problem in report.objects.problems)
    assert report.unchecked == ()
    assert report.topics[0].report.records == 40
    assert report.logs[0].report.records == 1
    done = run("verify")
    assert (done.exit_code, done.err) == (65, b"")
    assert b"invalid text" in done.out
    with Store.open(root) as store:
        assert store.bucket("whole").get("other").read() == b"y" * 100


def put_into_column(database: Path, *, table: str, column: str, value: str) -> None:
    """Stores a value of a type that the column's declaration refuses, as flipped bytes can."""
    connection = apsw.Connection(str(database))
    [(sql,)] = connection.execute("SELECT sql FROM sqlite_schema WHERE name = ?", (table,))
    lax = sql.replace(" STRICT,", "").replace(" STRICT", "")
    free = re.sub(rf"\b{column} [^,\n]+", column, lax)
    declare = "UPDATE sqlite_schema SET sql = ? WHERE name = ?"
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 0)
    connection.execute("PRAGMA writable_schema = ON")
    connection.execute(declare, (free, table))
    connection.execute("PRAGMA writable_schema = RESET")
    connection.execute(f"UPDATE {table} SET {column} = {value}")  # noqa: S608
    connection.execute("PRAGMA writable_schema = ON")
    connection.execute(declare, (sql, table))
    connection.close()


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("versions", "size", "NULL"),
        ("segments", "size", "NULL"),
        ("buckets", "versioning", "'Xnabled'"),
        ("multipart_parts", "size", "NULL"),
    ],
)
def test_metadata_of_a_wrong_type_are_reported_and_nothing_else_is_hidden(
    root: Path, run: Run, table: str, column: str, value: str
) -> None:
    with Store.open(root) as store:
        store.bucket("photos").upload("parts").put(1, b"p" * 100)
    put_into_column(root / "meta.db", table=table, column=column, value=value)
    report = verify_store(root)
    assert report.objects.problems
    assert report.unchecked == ()
    assert report.topics[0].report.records == 40
    assert report.logs[0].report.records == 1
    for command in (("verify",), ("s3", "verify")):
        done = run(*command)
        assert (done.exit_code, done.err) == (65, b""), command


@pytest.mark.parametrize("which", [0, -1])
@pytest.mark.parametrize("appended", [b"\xff" * 16, b"\xff" * 37, b"\x7f" * 16])
def test_bytes_appended_to_an_index_are_reported_and_nothing_else_is_hidden(
    root: Path, run: Run, which: int, appended: bytes
) -> None:
    folder = root / "topics" / "orders" / "0"
    index = sorted((folder / "segments").glob("*.idx"))[which]
    index.write_bytes(index.read_bytes() + appended)
    (folder / "durable_end").unlink()  # so that the newest one is judged, too
    report = verify_store(root)
    assert report.unchecked == ()
    [problem] = report.topics[0].report.problems
    assert (problem.verdict, str(index) in problem.problem) == ("mendable", True)
    assert (report.topics[0].report.records, report.objects.versions) == (40, 2)
    done = run("verify")
    assert (done.exit_code, done.err) == (65, b"")
    with Store.open(root) as store:
        assert len(list(store.topic("orders").partition(0).read())) == 40
    assert run("verify").exit_code == 0
