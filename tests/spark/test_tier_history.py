"""`tier-history` on a real session: what its tables say, against what the engine knows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyarrow import csv, parquet

from lakebed.aof.manifest.records import Payload, UploadDone, UploadFailed, UploadStarted
from lakebed.aof.tiers.log_tiers import Residence
from lakebed.host.store import Store
from lakebed.spark.backends import Backend
from lakebed.spark.jobs.report import Report
from lakebed.spark.jobs.tier_history import tier_history
from tests.aof.tiers.tiered_logs import write_segments
from tests.cli.manifest_stores import (
    CONFIG,
    append_all,
    chunk_files,
    fill_chunks,
    flip,
    journal_of,
)
from tests.http_api.live_api import HOST, open_api

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLES = ("time_in_tier", "hydration_latency", "upload_retries", "bytes_per_tier")
PNG = b"\x89PNG\r\n\x1a\n"
RETRIED = "aof2/again.zst"


def make(root: Path) -> list[Residence]:
    """A log that has been through all tiers, and one that nothing happened to."""
    with Store.open(root, config=CONFIG) as store:
        log = store.log("orders")
        write_segments(log, 4)
        log.tiers.upload([0, 1, 2])
        log.tiers.evict([0, 1], warm=True)
        log.tiers.evict([2])
        log.tiers.hydrate([1])
        found = log.tiers.residency()
        write_segments(store.log("quiet"), 1)
    return found


def table(output: Path, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = parquet.read_table(output / f"{name}.parquet").to_pylist()
    assert csv.read_csv(output / f"{name}.csv").num_rows == len(rows)
    return rows


@pytest.mark.spark
def test_the_tables_say_what_happened(spark: SparkSession, tmp_path: Path) -> None:
    root, output = tmp_path / "root", tmp_path / "out" / "history"
    residency = make(root)
    failures: list[Payload] = [UploadStarted(RETRIED), UploadFailed(RETRIED, 3)] * 2
    append_all(root, [*failures, UploadStarted(RETRIED), UploadDone(RETRIED, "e")], segment_id=0)
    report = tier_history(spark, Backend(path=str(root)), output=output)
    assert report.is_good
    stays = {(row["log"], row["tier"]): row for row in table(output, "time_in_tier")}
    counts = {place: (row["ended"], row["go_on"]) for place, row in stays.items()}
    # Four segments were opened in Tier 0, three were evicted, and one came back.
    assert counts[("orders", 0)] == (3, 1 + 1)
    assert counts[("orders", 1)] == (2, 1)
    assert counts[("orders", 2)] == (0, 3)
    assert counts[("quiet", 0)] == (0, 1)
    ended = stays[("orders", 0)]
    assert 0 <= ended["p50_s"] <= ended["p90_s"] <= ended["p99_s"] <= ended["max_s"]
    assert stays[("orders", 2)]["p50_s"] is None
    [hydration] = table(output, "hydration_latency")
    assert (hydration["log"], hydration["source_tier"]) == ("orders", 2)
    assert (hydration["done"], hydration["failed"]) == (1, 0)
    assert hydration["p50_ms"] == hydration["max_ms"] >= 0
    [uploads] = table(output, "upload_retries")
    assert (uploads["uploads"], uploads["done"], uploads["tries"]) == (4, 4, 3 + 3)
    assert (uploads["retries"], uploads["failures"], uploads["tries_max"]) == (2, 2, 3)
    check_bytes(output, residency)
    check_report(report, output)


def check_bytes(output: Path, residency: list[Residence]) -> None:
    sizes = [row for row in table(output, "bytes_per_tier") if row["log"] == "orders"]
    assert [row["at"] for row in sizes] == sorted(row["at"] for row in sizes)
    warm = sum(one.compressed_bytes for one in residency if 1 in one.tiers)
    cold = sum(one.compressed_bytes for one in residency if 2 in one.tiers)
    last = sizes[-1]
    assert (last["tier1_bytes"], last["tier2_bytes"]) == (warm, cold)
    assert last["tier0_bytes"] > 0
    assert all(row[f"tier{tier}_bytes"] >= 0 for row in sizes for tier in range(3))


def check_report(report: Report, output: Path) -> None:
    assert report.facts["logs"] == 2
    assert (report.facts["hydrations"], report.facts["upload_retries"]) == (1, 2)
    assert report.row_count == report.facts["records"]
    assert report.row_count > 20
    assert any(line.startswith("orders") for line in report.lines)
    names = {f"{name}.{kind}" for name in TABLES for kind in ("parquet", "csv")}
    plots = {"time_in_tier.png", "hydration_latency.png", "bytes_per_tier.png"}
    assert {path.name for path in output.iterdir()} == names | plots
    files = report.facts["files"]
    assert isinstance(files, list)
    assert {Path(file).name for file in files} == names | plots
    for name in plots:
        data = (output / name).read_bytes()
        assert data.startswith(PNG)
        assert len(data) > 5000


@pytest.mark.spark
def test_history_that_was_removed_begins_with_the_oldest_snapshot(
    spark: SparkSession, tmp_path: Path
) -> None:
    root, output = tmp_path / "root", tmp_path / "out"
    make(root)
    with Store.open(root, config=CONFIG) as store:
        log = store.log("orders")
        for until in (2, 4, 6):
            fill_chunks(log, until=until)
            journal_of(log).take_snapshot()
        log.tiers.evict([2], warm=True)
    for path in chunk_files(root)[:2]:
        path.unlink()
    report = tier_history(spark, Backend(path=str(root)), ["orders"], output=output, plots=False)
    assert any("oldest snapshot" in line for line in report.lines)
    stays = {row["tier"]: (row["ended"], row["go_on"]) for row in table(output, "time_in_tier")}
    assert stays == {0: (0, 2), 1: (1, 0), 2: (0, 3)}
    assert not list(output.glob("*.png"))


@pytest.mark.spark
def test_damage_is_told_and_the_rest_is_counted(spark: SparkSession, tmp_path: Path) -> None:
    root = tmp_path / "root"
    make(root)
    with Store.open(root, config=CONFIG) as store:
        fill_chunks(store.log("orders"), until=2)
    flip(chunk_files(root)[1], 200)
    report = tier_history(spark, Backend(path=str(root)), ["orders"])
    assert not report.is_good
    assert report.facts["problems"] == 1
    assert "chunk 1: corrupt" in report.lines[0]
    assert report.facts["hydrations"] == 1
    assert report.facts["files"] == []


@pytest.mark.spark
def test_damage_of_the_first_chunk_as_a_whole_is_reported(
    spark: SparkSession, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    make(root)
    with Store.open(root, config=CONFIG) as store:
        fill_chunks(store.log("orders"), until=2)
    flip(chunk_files(root)[0], 50)  # its checksum: all of its records can be read
    report = tier_history(spark, Backend(path=str(root)), ["orders"])
    assert not report.is_good
    assert "the chunk's checksum does not match" in report.lines[0]


@pytest.mark.spark
@pytest.mark.parametrize("is_damaged", [False, True], ids=["whole", "damaged"])
def test_over_an_endpoint_the_tables_are_the_same(
    spark: SparkSession, tmp_path: Path, is_damaged: bool
) -> None:
    """Of a history that begins with a snapshot, and beside the store's writer."""
    root = tmp_path / "store"
    make(root)
    with Store.open(root, config=CONFIG) as store:
        log = store.log("orders")
        for until in (2, 4, 6):
            fill_chunks(log, until=until)
            journal_of(log).take_snapshot()
        log.tiers.evict([2], warm=True)
        log.tiers.hydrate([0])
        write_segments(log, 1)
        log.tiers.upload()
        fill_chunks(log, until=8)
    chunk_files(root)[0].unlink()
    if is_damaged:
        flip(chunk_files(root)[-2], 200)
    with open_api(tmp_path, config=CONFIG) as live_api:
        write_segments(live_api.store.log("quiet"), 2)
        live_api.store.log("empty")
        there = Backend(endpoint=f"http://any:any@{HOST}:{live_api.port}")
        reports = {}
        for name, backend in (("path", Backend(path=str(root))), ("endpoint", there)):
            reports[name] = tier_history(spark, backend, output=tmp_path / name, plots=False)
            with pytest.raises(Exception, match="there is no log payments"):
                tier_history(spark, backend, ["orders", "payments"])
    told = {name: facts_of(report) for name, report in reports.items()}
    assert told["endpoint"] == told["path"]
    assert reports["endpoint"].is_good is not is_damaged
    assert reports["endpoint"].facts["logs"] == 2
    for name in TABLES:
        rows = table(tmp_path / "endpoint", name)
        assert rows == table(tmp_path / "path", name)
        assert rows


def facts_of(report: Report) -> tuple[Any, ...]:
    """All but where its files are."""
    return report.row_count, report.lines, {**report.facts, "files": len(report.facts["files"])}  # type: ignore[arg-type]
