"""The settings of the object store that are more than numbers within limits."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakebed.base.errors import BadConfig
from lakebed.seglake.config import SeglakeConfig
from lakebed.seglake.errors import PreconditionFailed
from tests.seglake.lakes import open_lake


@pytest.mark.parametrize(
    ("names", "wrong"),
    [
        ("Photos", "Photos"),
        ("photos,my_bucket", "my_bucket"),
        ("*, photos/", "photos/"),
        ("photo*", "photo*"),
        ("ab", "ab"),
    ],
)
def test_buckets_that_cannot_exist_are_refused(names: str, wrong: str) -> None:
    with pytest.raises(BadConfig) as refused:
        SeglakeConfig(require_if_match_buckets=names)
    message = str(refused.value)
    assert message.startswith(f"require_if_match_buckets: '{wrong}' is not a valid bucket name")


@pytest.mark.parametrize("names", ["ant,bee", " ant , bee, "])
def test_each_bucket_of_a_list_is_protected(tmp_path: Path, names: str) -> None:
    with open_lake(tmp_path, require_if_match_buckets=names) as lake:
        for bucket in ("ant", "bee", "cat"):
            lake.buckets.create(bucket)
            lake.objects.put(bucket, "key", b"first")
        for bucket in ("ant", "bee"):
            with pytest.raises(PreconditionFailed):
                lake.objects.put(bucket, "key", b"second")
        lake.objects.put("cat", "key", b"second")
