"""The tables, how they come to be, and how each statement finds its rows."""

from __future__ import annotations

import re
from pathlib import Path

import apsw
import pytest

from lakebed.base.errors import UnknownVersion
from lakebed.seglake.meta import connection as connections
from lakebed.seglake.meta import migration, schema, statements
from lakebed.seglake.meta.database import Database
from tests.seglake.meta.samples import open_database, put, version, write

TABLES = {
    "schema_migrations",
    "buckets",
    "versions",
    "objects_current",
    "manifests",
    "segments",
    "api_keys",
    "api_key_bucket_allow",
    "bucket_policies",
    "multipart_uploads",
    "multipart_parts",
    "rebuild_state",
    "ops_runs",
    "oplog",
    "repl_state",
    "repl_state_remote",
    "repl_metrics",
}

AT_ONCE = {
    f"{name} {count}": sql
    for name, texts in vars(statements).items()
    if isinstance(texts, dict) and name.isupper()
    for count, sql in texts.items()
}
QUERIES = AT_ONCE | {
    name: sql
    for name, sql in vars(statements).items()
    if isinstance(sql, str)
    and name.isupper()
    and sql.split()[0] in ("SELECT", "INSERT", "UPDATE", "DELETE")
}

WHOLE_TABLES = {"API_KEYS", "BUCKETS", "SEGMENTS", "SITE_ID", "TABLE_COUNT"}
WHOLE_TABLES |= {
    "OBJECT_COUNT",
    "SEGMENT_COUNT",
    "VERSION_TOTALS",
    "MANIFEST_COUNT",
    "HAS_HISTORY",  # of each table, the first row
}  # now and then
WHOLE_INDEX = "SCAN manifests USING INDEX manifests_pending"  # it holds what is pending, no more


def table_names(connection: apsw.Connection) -> set[str]:
    found = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
    return {str(name) for (name,) in found}


def test_all_tables_of_the_specification_are_there(database: Database) -> None:
    with database.snapshot() as reader:
        assert table_names(reader.connection) == TABLES | {"site"}


@pytest.mark.parametrize("name", QUERIES)
def test_no_statement_reads_more_than_it_must(database: Database, name: str) -> None:
    sql = QUERIES[name]
    count = max(map(int, re.findall(r"\?(\d+)", sql)), default=sql.count("?"))
    with database.snapshot() as reader:
        found = reader.connection.execute(f"EXPLAIN QUERY PLAN {sql}", (None,) * count)
        plan = [str(row[3]) for row in found]
    assert not any("TEMP B-TREE" in step for step in plan), plan
    scans = {step for step in plan if step.startswith("SCAN")} - {"SCAN CONSTANT ROW", WHOLE_INDEX}
    scans = {step for step in scans if not step.endswith("-ROW VALUES CLAUSE")}  # the given rows
    assert not scans or name in WHOLE_TABLES, plan


def test_a_read_plans_its_statement_once(database: Database) -> None:
    """If the planner looked at the values that are bound, each use would plan anew."""
    write(database, put(version("a", 1)))
    asked = 0

    def authorize(*_: object) -> int:
        nonlocal asked  # SQLite asks while it plans, and only then
        asked += 1
        return apsw.SQLITE_OK

    with database.snapshot() as reader:
        reader.connection.authorizer = authorize
        counts = []
        for key in ("a", "b", "c"):
            reader.newest("photos", key)
            reader.null_version("photos", key)
            reader.current_manifest("photos", key)
            counts.append(asked)
        reader.connection.authorizer = None
    assert counts == [counts[0]] * 3
    assert counts[0] > 0


def test_the_writer_syncs_each_commit(database: Database) -> None:
    found = write(
        database,
        lambda writer: [
            writer.connection.pragma(name)
            for name in ("journal_mode", "synchronous", "wal_autocheckpoint")
        ],
    )
    assert found == ["wal", 2, 0]


def test_missing_migrations_are_applied_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_database(tmp_path).close()
    more = (*schema.MIGRATIONS, "CREATE TABLE second (x)", "ALTER TABLE second ADD COLUMN y")
    monkeypatch.setattr(migration, "MIGRATIONS", more)
    with pytest.raises(UnknownVersion):
        open_database(tmp_path, read_only=True)
    with open_database(tmp_path) as database, database.snapshot() as reader:
        assert "second" in table_names(reader.connection)
        numbers = reader.connection.execute("SELECT version FROM schema_migrations").fetchall()
        assert numbers == [(number + 1,) for number in range(len(more))]
    open_database(tmp_path).close()


def test_a_migration_that_fails_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_database(tmp_path).close()
    more = (*schema.MIGRATIONS, "CREATE TABLE second (x)", "this is no SQL")
    with monkeypatch.context() as patch:
        patch.setattr(migration, "MIGRATIONS", more)
        with pytest.raises(Exception, match="syntax error"):
            open_database(tmp_path)
    connection = connections.connect(str(tmp_path / "meta.db"))
    assert "second" not in table_names(connection)
    connection.close()
    open_database(tmp_path).close()
