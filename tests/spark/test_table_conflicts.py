"""Commits to a table that others disturb: somebody is faster, or an answer is lost. No session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError

from lakebed.base.errors import Busy
from lakebed.spark.sinks.table import FilesWritten, commit_messages
from lakebed.spark.tables import commit as commit_module
from lakebed.spark.tables.commit import CommitInDoubt, Target, Transaction, planned
from lakebed.spark.tables.location import TableLocation
from tests.s3.endpoint import Endpoint
from tests.spark.table_locations import (
    SCHEMA,
    append,
    batch,
    commit,
    delta,
    keys_below,
    numbers_of,
    write,
)

pytestmark = [pytest.mark.process]

TARGET = Target(SCHEMA)


class Interrupted:
    """In the place of deltalake's own commit: somebody is faster, or the answer is lost."""

    def __init__(
        self,
        *,
        before: Any = None,
        error: Exception | None = None,
        load_errors: Sequence[Exception] = (),
    ) -> None:
        """`load_errors` are those of the loads that follow."""
        self.calls = 0
        self._before = before
        self._error = error
        self._load_errors = list(load_errors)
        self._real = DeltaTable.create_write_transaction
        self._real_load = DeltaTable.__init__

    def put_in_place(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def load_it(table: DeltaTable, *arguments: Any, **settings: Any) -> None:
            if self.calls and self._load_errors:
                raise self._load_errors.pop(0)
            self._real_load(table, *arguments, **settings)

        monkeypatch.setattr(DeltaTable, "__init__", load_it)

        def commit_it(table: DeltaTable, *arguments: Any, **settings: Any) -> None:
            self.calls += 1
            is_first = self.calls == 1
            if is_first and self._before is not None:
                self._before()
            self._real(table, *arguments, **settings)
            if is_first and self._error is not None:
                raise self._error

        monkeypatch.setattr(DeltaTable, "create_write_transaction", commit_it)


@pytest.mark.parametrize("load_errors", [[], [OSError("reset"), DeltaError("reset")]], ids=len)
@pytest.mark.parametrize("transaction", [None, Transaction("query", 1)])
@pytest.mark.parametrize("error", [OSError("reset"), CommitFailedError("412")], ids=str)
def test_a_commit_whose_answer_is_lost_is_found_and_not_repeated(
    place: TableLocation,
    monkeypatch: pytest.MonkeyPatch,
    transaction: Transaction | None,
    error: Exception,
    load_errors: list[Exception],
) -> None:
    append(place, batch(1), SCHEMA)
    interrupted = Interrupted(error=error, load_errors=load_errors)
    interrupted.put_in_place(monkeypatch)
    done = append(place, batch(2), SCHEMA, transaction=transaction)
    assert done.is_new
    assert interrupted.calls == 1
    assert numbers_of(place) == [1, 2]
    assert delta(place).version() == 2


def test_a_table_that_cannot_be_looked_at_after_a_lost_answer_keeps_its_files(
    node: Endpoint, place: TableLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = planned(place, TARGET)
    message = FilesWritten(write(place, plan, [batch(1)]), plan)
    refused = OSError("Client error with status 403: AccessDenied")
    with monkeypatch.context() as patched:
        Interrupted(error=OSError("reset"), load_errors=[refused]).put_in_place(patched)
        with pytest.raises(CommitInDoubt, match="refused the access key"):
            commit_messages(place, TARGET, [message], transaction=None)
    assert numbers_of(place) == [1]
    assert len(list(keys_below(node, place))) == 1


def test_the_last_of_too_many_conflicts_is_looked_at_too(
    place: TableLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_module, "ATTEMPTS_MAX", 1)
    append(place, batch(1), SCHEMA)
    plan = planned(place, TARGET)
    message = FilesWritten(write(place, plan, [batch(2)]), plan)
    Interrupted(error=CommitFailedError("412")).put_in_place(monkeypatch)
    assert commit_messages(place, TARGET, [message], transaction=None).is_new
    assert numbers_of(place) == [1, 2]


def test_who_loses_to_others_too_often_is_busy_and_its_files_are_removed(
    node: Endpoint, place: TableLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_module, "ATTEMPTS_MAX", 1)
    append(place, batch(1), SCHEMA)
    plan = planned(place, TARGET)
    message = FilesWritten(write(place, plan, [batch(2)]), plan)
    other = write(place, plan, [batch(3)])
    Interrupted(before=lambda: commit(place, other, plan, TARGET)).put_in_place(monkeypatch)
    with pytest.raises(Busy, match="faster 1 times"):
        commit_messages(place, TARGET, [message], transaction=None)
    assert numbers_of(place) == [1, 3]
    assert len(list(keys_below(node, place))) == 2


def test_a_faster_writer_makes_a_commit_look_again(
    node: Endpoint, place: TableLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(place, batch(1), SCHEMA)
    plan = planned(place, TARGET)
    mine = FilesWritten(write(place, plan, [batch(2)]), plan)
    other = write(place, plan, [batch(2)])

    def be_faster() -> None:
        commit(place, other, plan, TARGET, Transaction("query", 1))

    Interrupted(before=be_faster).put_in_place(monkeypatch)
    done = commit_messages(place, TARGET, [mine], transaction=Transaction("query", 1))
    assert not done.is_new
    assert numbers_of(place) == [1, 2]
    assert len(list(keys_below(node, place))) == 2


def test_an_overwrite_replaces_also_what_came_in_between(
    place: TableLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(place, batch(1), SCHEMA)
    plan = planned(place, TARGET)
    other = write(place, plan, [batch(9)])

    def be_faster() -> None:
        commit(place, other, plan, TARGET)

    Interrupted(before=be_faster).put_in_place(monkeypatch)
    append(place, batch(2), SCHEMA, overwrites=True, transaction=Transaction("query", 1))
    assert numbers_of(place) == [2]
    assert numbers_of(place, delta(place).version() - 1) == [1, 9]
