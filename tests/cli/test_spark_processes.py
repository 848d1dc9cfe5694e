"""`lakebed spark run` in processes of its own: one run of each job, a failure, an interrupt."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from lakebed.client.store import RemoteStore
from lakebed.node.own_s3 import own_s3
from lakebed.spark.tables.location import TableLocation
from tests.cli.in_process import Run
from tests.cli.tiered_stores import LINES, make_root, write_segments
from tests.s3.endpoint import Endpoint
from tests.spark.messages import fill_special, told
from tests.spark.sinks import make_topic
from tests.spark.test_session import LOOPBACKS, listening_addresses

pytestmark = [pytest.mark.spark, pytest.mark.process, pytest.mark.timeout(900)]

COUNT = 30
MASTER = ("--master", "local[2]", "--conf", "spark.sql.shuffle.partitions=2")
LAKEBED = (sys.executable, "-m", "lakebed.cli")

# Several commands in one process have one Java: that saves its start.
PROGRAM = """
import json, sys
from lakebed.cli.main import main

for command in json.loads(sys.argv[1]):
    code = main(command)
    print(f"\\0{code}\\0", flush=True)
"""


class Done(NamedTuple):
    exit_code: int
    out: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


def run_all(
    folder: Path, environment: dict[str, str], commands: Sequence[Sequence[str]]
) -> list[Done]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(commands)],
        cwd=folder,
        env=environment | {"TMPDIR": str(folder)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=800,
        check=True,
    )
    assert done.stderr == "", "Spark's own words are in the log"
    parts = done.stdout.split("\0")[:-1]
    return [Done(int(code), out) for out, code in zip(parts[::2], parts[1::2], strict=True)]


def scratch_folders(folder: Path) -> list[Path]:
    return sorted(folder.glob("lakebed-spark-*"))


def test_each_job_does_its_work(
    tmp_path: Path, environment: dict[str, str], root: Path, run: Run
) -> None:
    make_root(root)
    fill_special(root, "orders", partitions=2, count=COUNT)
    make_topic(root, "once")
    write_segments(run)  # of a log, all of them cold then
    for move in (["upload"], ["evict", "--warm"]):
        assert run("aof", move[0], "orders", *move[1:]).exit_code == 0
    top = ["--root", str(root), "--json", "spark", "run"]
    jobs = [
        ["replay", "orders", "again", "--create", "--keep-partitions"],
        ["replay", "orders", "cold", "--create", "--log"],
        ["export", "orders", "files", "--from-offset", "10"],
        ["import", "files", "once", "--name", "n"],
        ["verify"],
        ["tier-history", "orders", "--output", "history"],
        ["land", "lake/orders", "--topic", "orders", "--partition-by", "day", "--create-bucket"],
    ]
    done = run_all(tmp_path, environment, [[*top, *job, *MASTER] for job in jobs])
    assert [one.exit_code for one in done] == [0] * len(jobs), done
    for job, one in zip(jobs, done, strict=True):
        assert one.document["job"] == job[0]
        assert one.document["good"] is True
        assert one.document["seconds"] > 0
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+", one.document["spark_ui"])
    rows = {" ".join(job[:3]): one.document["rows"] for job, one in zip(jobs, done, strict=True)}
    lines = LINES.splitlines()
    assert rows["replay orders again"] == rows["land lake/orders --topic"] == 2 * COUNT
    assert rows["replay orders cold"] == len(lines)
    assert rows["export orders files"] == rows["import files once"] == 2 * (COUNT - 10)
    assert rows["verify"] > len(lines)
    assert told(root, "again") == told(root, "orders")
    assert [one.value for one in told(root, "cold")[0]] == lines
    assert len(told(root, "once")[0]) == 2 * (COUNT - 10)
    assert landed_rows(root) == 2 * COUNT
    assert list((tmp_path / "history").glob("*.png"))
    assert scratch_folders(tmp_path) == [], "of what went well nothing is left"
    names = [one.name for one in tmp_path.iterdir() if not one.name.startswith(".")]
    assert sorted(names) == ["files", "history", "root"]


def landed_rows(root: Path) -> int:
    from deltalake import DeltaTable

    with own_s3(root) as own:
        options = own.options()
        place = TableLocation(
            options["s3Endpoint"],
            options["accessKey"],
            options["secretKey"],
            region=options["region"],
            bucket="lake",
            prefix="orders",
        )
        table = DeltaTable(place.uri, storage_options=place.storage_options())
        return int(table.to_pyarrow_dataset().count_rows())


def test_what_fails_is_one_line_with_the_place_of_the_log(
    tmp_path: Path, environment: dict[str, str], root: Path
) -> None:
    make_topic(root, "t")
    folder = tmp_path / "files"
    folder.mkdir()
    parquet.write_table(pa.table({"value": ["1"]}), folder / "a.parquet")
    (folder / "b.parquet").write_bytes(b"no Parquet")
    failed = subprocess.run(
        [*LAKEBED, "--root", str(root), "spark", "run", "import", "files", "t", *MASTER],
        cwd=tmp_path,
        env=environment | {"TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    assert failed.returncode == 65
    assert failed.stdout.startswith("Spark UI: http://127.0.0.1:")
    [scratch] = scratch_folders(tmp_path)
    line = failed.stderr.removesuffix("\n")
    assert "\n" not in line
    assert re.fullmatch(
        rf"lakebed: {folder}/b\.parquet: not a valid Parquet file: .* "
        rf"\(Spark's log: {scratch}/spark\.log\)",
        line,
    )
    assert "Traceback" in (scratch / "spark.log").read_text()
    assert told(root, "t") == [[]], "all of it, or nothing"


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_same_through_a_node(
    tmp_path: Path, environment: dict[str, str], root: Path, run: Run
) -> None:
    fill_special(root, "orders", partitions=1, count=COUNT)
    write_segments(run)
    assert run("aof", "upload", "orders").exit_code == 0
    with Endpoint(root) as node:
        keys = {"LAKEBED_ACCESS_KEY": node.access_key, "LAKEBED_SECRET_KEY": node.secret_key}
        places = ("--endpoint", node.http_url, *MASTER)
        bucket = ("--s3-endpoint", node.url)
        top = ["--json", "spark", "run"]
        make_bucket(node)
        done = run_all(
            tmp_path,
            environment | keys,
            [
                [*top, "replay", "orders", "again", "--create", *places],
                [*top, "export", "orders", "s3://lake/o", *places, *bucket],
                [*top, "import", "s3://lake/o", "again", *places, *bucket],
                [*top, "tier-history", "orders", "--output", "history", *places],
            ],
        )
    assert [one.exit_code for one in done] == [0, 0, 0, 0]
    assert [one.document["rows"] for one in done[:3]] == [COUNT] * 3
    assert done[3].document["facts"]["uploads"] > 0
    assert (tmp_path / "history" / "bytes_per_tier.png").exists()
    assert [len(one) for one in told(root, "again")] == [2 * COUNT]


def make_bucket(node: Endpoint) -> None:
    with RemoteStore.open(str(node.root)) as store:
        store.bucket("lake")


@pytest.mark.slow
def test_an_interrupt_ends_a_stream_and_nobody_else_reaches_it(
    tmp_path: Path, environment: dict[str, str], root: Path
) -> None:
    fill_special(root, "orders", partitions=1, count=COUNT)
    terminal, theirs = pty.openpty()
    command = ["--root", str(root), "spark", "run", "land", "lake/orders", "--topic", "orders"]
    process = subprocess.Popen(
        [*LAKEBED, *command, "--create-bucket", "--stream", "--interval", "0", *MASTER],
        cwd=tmp_path,
        env=environment | {"TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
    )
    os.close(theirs)
    try:
        assert process.stdout is not None
        shown = read_until(terminal, f"land lake/orders {COUNT} rows, ")
        line = process.stdout.readline()
        assert line.startswith("Spark UI: http://127.0.0.1:")
        page = HTTPConnection("127.0.0.1", int(line.rpartition(":")[2]))
        page.request("GET", "/jobs/")
        assert page.getresponse().status == 200
        page.close()
        processes = [process.pid, *children_of(process.pid)]
        assert len(processes) > 1
        for number in processes:
            assert listening_addresses(number) <= LOOPBACKS
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=200)
    finally:
        process.kill()
        process.wait()
        os.close(terminal)
    assert process.returncode == 130
    assert "starting Spark" in shown
    assert "land: done in " in out
    assert f"{COUNT} rows" in out
    assert landed_rows(root) == COUNT


@pytest.mark.slow
def test_an_interrupt_ends_a_job_with_one_line(
    tmp_path: Path, environment: dict[str, str], root: Path
) -> None:
    fill_special(root, "orders", partitions=1, count=COUNT)
    process = subprocess.Popen(
        [*LAKEBED, "--root", str(root), "spark", "run", "replay", "orders", "orders", *MASTER],
        cwd=tmp_path,
        env=environment | {"TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("Spark UI: ")
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        out, err = process.communicate(timeout=400)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, out, err) == (130, "", "lakebed: interrupted\n")
    assert scratch_folders(tmp_path) == []


def read_until(terminal: int, text: str) -> str:
    shown = ""
    while text not in shown:
        shown += os.read(terminal, 4096).decode()
    return shown


def children_of(process_id: int) -> Iterator[int]:
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # ended meanwhile
        if int(fields[1]) == process_id:
            yield int(path.parent.name)
