"""`lakebed s3 keys`, each command and what it prints, in the tests' own process."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lakebed.host.store import Store
from tests.cli.in_process import Run

pytestmark = pytest.mark.thorough


def create(run: Run, *options: str) -> tuple[str, str]:
    """The access key and the secret."""
    lines = run("s3", "keys", "create", *options).lines()
    assert [line[:12] for line in lines] == ["access key  ", "secret key  "]
    return lines[0][12:], lines[1][12:]


def test_keys_are_created_listed_disabled_and_enabled(run: Run, root: Path) -> None:
    access_key, secret = create(run, "--label", "nightly backup")
    other, _ = create(run)
    listed = run("s3", "keys").lines()
    assert listed == run("s3", "keys", "list").lines()
    assert re.split(r"  +", listed[0]) == ["access key", "state", "created", "last used", "label"]
    assert listed[1].startswith(f"{access_key}  enabled")
    assert listed[1].endswith("never      nightly backup")
    assert listed[2].startswith(other)
    assert run("s3", "keys", "disable", access_key).lines() == [f"{access_key}: disabled"]
    assert run("s3", "keys", "disable", access_key).lines() == [f"{access_key}: disabled"]
    [disabled, _] = run("s3", "keys", as_json=True).document()["keys"]
    assert (disabled["access_key"], disabled["state"]) == (access_key, "disabled")
    with Store.open(root) as store:
        assert store.lake.keys.open(access_key) is None
    assert run("s3", "keys", "enable", access_key).lines() == [f"{access_key}: enabled"]
    with Store.open(root) as store:
        opened = store.lake.keys.open(access_key)
        assert opened is not None
        assert opened[1] == secret


def test_the_secret_is_told_once(run: Run) -> None:
    made = run("s3", "keys", "create", "--label", "a", "--inflight-max", "7", as_json=True)
    document = made.document()
    assert (document["label"], document["state"], document["inflight_max"]) == ("a", "enabled", 7)
    assert document["last_used"] is None
    secret = document.pop("secret_key")
    listed = run("s3", "keys", as_json=True)
    assert listed.document() == {"keys": [document]}
    assert secret.encode() not in listed.out + run("s3", "keys").out


def test_mistakes_touch_nothing(run: Run, root: Path) -> None:
    assert "printable" in run("s3", "keys", "create", "--label", "a\nb").error_line()
    assert "no such root" in run("s3", "keys", "disable", "LAKE1").error_line()
    assert not root.exists()
    create(run)
    assert run("s3", "keys", "disable", "LAKE1").error_line() == "access key 'LAKE1' does not exist"


def test_a_missing_file_is_told(run: Run, root: Path) -> None:
    create(run)
    (root / "secret.key").unlink()
    failed = run("s3", "keys", "create")
    assert failed.exit_code == 65
    assert "secret.key: the secret key file is missing" in failed.error_line()
    assert len(run("s3", "keys").lines()) == 2
