"""What a store makes is for its owner alone."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakebed.host.store import Store


@pytest.fixture
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def modes_below(root: Path) -> dict[str, int]:
    paths = [root, *root.rglob("*")]
    return {str(path.relative_to(root)): stat.S_IMODE(path.lstat().st_mode) for path in paths}


@pytest.mark.usefixtures("usual_umask")
def test_a_new_root_and_all_that_is_in_it_is_the_owners_alone(tmp_path: Path) -> None:
    root = tmp_path / "srv" / "data"
    with Store.open(root) as store:
        log, topic = store.log("orders"), store.topic("events")
        log.append_record(b"x")
        log.flush()
        log.seal_current_segment()
        topic.append_batch([b"x"]).result()
        topic.group("readers").lease()
        store.lake.buckets.create("photos")
        store.lake.objects.put("photos", "key", b"x" * 3_000_000)
        open_modes = modes_below(root)
    assert {"meta.db", "meta.db-wal", "lakebed.sock", "aof/orders", "topics/events/0"} <= set(
        open_modes
    )
    for found in (open_modes, modes_below(root)):
        for name, mode in found.items():
            assert mode == (0o700 if (root / name).is_dir() else 0o600), name


@pytest.mark.usefixtures("usual_umask")
def test_a_root_that_was_there_keeps_its_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o750)
    with Store.open(tmp_path) as store:
        store.topic("events")
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o750
