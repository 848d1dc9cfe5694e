"""Tier commands while another process writes, and with a real S3 endpoint."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.aof.tiers.conftest import make_bucket, s3_endpoint  # noqa: F401 - a fixture
from tests.cli.conftest import Lakebed

Environment = dict[str, str]
pytestmark = pytest.mark.process

SETTINGS = '[aof]\nsegment_bytes = "64KiB"\n'
LINES = "".join(f"line {number:05} {'x' * (number % 300)}\n" for number in range(1500))

WRITER = """
import sys
from pathlib import Path
from lakebed.host.store import Store

with Store.open(Path("root")) as store:
    log = store.log("orders")
    for line in Path("lines").read_bytes().splitlines():
        log.append_record_with_timeout(line, 60)
    log.seal_current_segment()
    log.tiers.upload()
    log.tiers.evict([0, 2])
    log.tiers.evict([1, 2], warm=True)
    log.append_record(b"open")
    log.flush()
    log.manifest.commit()
    print("ready", flush=True)
    sys.stdin.read()
"""


def fill(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "lakebed.toml").write_text(SETTINGS)
    (tmp_path / "lines").write_text(LINES)


def segments(lakebed: Lakebed, **variables: str) -> list[Any]:
    done = lakebed("--root", "root", "--json", "aof", "tiers", "orders", **variables)
    found: list[Any] = done.document()["segments"]
    return found


def test_readers_beside_a_live_writer_and_after_its_death_see_all_tiers(
    lakebed: Lakebed, tmp_path: Path, environment: Environment
) -> None:
    fill(tmp_path)
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER],
        cwd=tmp_path,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"ready\n"
        beside = segments(lakebed)
        assert [one["tiers"] for one in beside[:4]] == [[1, 2], [2], [2], [0, 1, 2]]
        assert (beside[-1]["state"], beside[-1]["tiers"]) == ("open", [0])
        assert lakebed("--root", "root", "aof", "cat", "orders").out == f"{LINES}open\n"
        verified = lakebed("--root", "root", "aof", "verify", "orders", "--tier2")
        assert (verified.exit_code, verified.err) == (0, "")
        busy = lakebed("--root", "root", "aof", "migrate-tier2", "orders", "elsewhere")
        assert busy.error_line() == (
            "orders: the log is open, being opened or being migrated; close it to migrate its "
            "Tier 2; "
            f"process {writer.pid} has the store open: end that program, or try again later"
        )
        assert busy.exit_code == 75
    finally:
        writer.kill()
        writer.communicate()
    assert segments(lakebed) == beside
    assert lakebed("--root", "root", "aof", "hydrate", "orders").exit_code == 0
    assert [one["tiers"][0] for one in segments(lakebed)] == [0] * len(beside)
    assert lakebed("--root", "root", "aof", "cat", "orders").out == f"{LINES}open\n"


def test_a_log_lives_on_an_s3_endpoint(
    lakebed: Lakebed,
    tmp_path: Path,
    s3_endpoint: str,  # noqa: F811
) -> None:
    make_bucket(s3_endpoint, "from-the-commands")
    fill(tmp_path)
    variables = {
        "LAKEBED_AOF_TIER2_URL": "s3://from-the-commands/some/prefix",
        "LAKEBED_AOF_TIER2_ENDPOINT": s3_endpoint,
        "LAKEBED_AOF_TIER2_REGION": "us-east-1",
        "LAKEBED_AOF_TIER2_ACCESS_KEY_ID": "someone",
        "LAKEBED_AOF_TIER2_SECRET_ACCESS_KEY": "secret",
    }

    def aof(*arguments: str, **others: str) -> str:
        done = lakebed("--root", "root", "aof", *arguments, **(variables | others))
        assert (done.exit_code, done.err) == (0, "")
        return done.out

    aof("append", "orders", "--file", "lines")
    aof("seal", "orders")
    assert "segments uploaded" in aof("upload", "orders")
    assert "segments evicted" in aof("evict", "orders", "--warm")
    assert list((tmp_path / "root" / "aof" / "orders" / "segments").glob("*.seg")) == []
    assert not (tmp_path / "root" / "tier2").exists()
    assert aof("cat", "orders") == LINES
    assert aof("tail", "orders", "-n", "1") == LINES.splitlines(keepends=True)[-1]
    assert "s3://from-the-commands/some/prefix" in aof("tiers", "orders")
    assert "5 objects, all whole" in aof("verify", "orders", "--tier2")
    # The address is the log's, whatever the settings say later; where it is reached is not.
    assert aof("cat", "orders", LAKEBED_AOF_TIER2_URL="/elsewhere") == LINES
    away = variables | {
        "LAKEBED_AOF_TIER2_ENDPOINT": "http://127.0.0.1:1",
        "LAKEBED_AOF_TIER2_RETRY_COUNT": "0",
    }
    unreached = lakebed("--root", "root", "aof", "cat", "orders", **away)
    assert unreached.error_line().endswith(
        "; check the network, and url and endpoint in section [aof_tier2], and try again"
    )
    assert unreached.exit_code == 75
    unknown = lakebed("--root", "root", "aof", "verify", "orders", "--tier2", **away)
    assert unknown.out == "orders: 0 segments, 0 records, whole as far as they were read\n"
    assert unknown.exit_code == 75
    manifest = lakebed("--root", "root", "manifest", "verify", "orders", **away)
    assert manifest.out.endswith(", 0 segments, whole as far as they were read\n")
    assert manifest.exit_code == 75
    manifest = lakebed("--root", "root", "--json", "manifest", "verify", "orders", **away)
    assert json.loads(manifest.out)["ok"] is False
    assert (
        "segments hydrated"
        in lakebed("--root", "root", "aof", "hydrate", "orders", **variables).out
    )
    assert aof("cat", "orders") == LINES
