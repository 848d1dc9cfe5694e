"""The rows of the HTTP server: every contestant answers, and counts what it answered."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pytest

from bench.http_load import wrk
from bench.http_server import rows, tiny
from bench.row import Unavailable

pytestmark = pytest.mark.process

CASES = [(row.name, one.name) for row in rows(tiny(Path())) for one in row.contestants]


@pytest.mark.parametrize(("row_name", "contestant_name"), CASES)
def test_a_run_does_the_work_that_it_counts(
    row_name: str, contestant_name: str, tmp_path: Path
) -> None:
    work = tiny(tmp_path)
    row = next(row for row in rows(work) if row.name == row_name)
    setup = next(one.setup for one in row.contestants if one.name == contestant_name)
    if row.unit == "requests":
        try:
            wrk()
        except Unavailable as error:
            pytest.skip(str(error))
    with ExitStack() as stack:
        made = setup()
        run = stack.enter_context(made) if isinstance(made, AbstractContextManager) else made
        counted = run()
    assert counted > 0
    if row.unit == "bytes":
        assert counted == work.large_count * work.large_bytes
    assert not list(tmp_path.iterdir()), "something was left behind"
