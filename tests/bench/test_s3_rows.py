"""The rows of the S3 endpoint, with very little work: what they count is what they did.

Only lakebed runs here, for the others are installed when they are measured. No test here looks at
a time.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pytest

from bench.row import Unavailable
from bench.s3 import rows, tiny
from bench.s3_signing import Credentials, signed_headers

pytestmark = [pytest.mark.process, pytest.mark.thorough]


@pytest.mark.parametrize("name", [row.name for row in rows(tiny(Path()))])
def test_a_run_does_the_work_that_it_counts(name: str, tmp_path: Path) -> None:
    work = tiny(tmp_path)
    [row] = [one for one in rows(work) if one.name == name]
    [ours] = [one for one in row.contestants if one.name == "lakebed"]
    with ExitStack() as stack:
        made = ours.setup()
        assert isinstance(made, AbstractContextManager)
        try:
            run = stack.enter_context(made)
        except Unavailable as why:
            pytest.skip(str(why))
        counted = run()
    if "16 MiB" in row.name:
        assert counted == work.large_bytes * work.large_count
    elif "list" in row.name:
        assert counted == work.listed
    else:
        assert counted > 0
    assert not list(tmp_path.iterdir()), "something was left behind"


def test_every_request_has_a_signature_of_its_own() -> None:
    key = Credentials("a", "b")
    found = {
        signed_headers("GET", path, host="h", credentials=key, query=query)["Authorization"]
        for path in ("/a", "/b")
        for query in ({}, {"x": "1"})
    }
    assert len(found) == 4
