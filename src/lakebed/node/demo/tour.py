"""The stations of the demo, in order, and the summary at the end."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from lakebed import kernels
from lakebed.base.clock import NS_PER_S, SystemClock
from lakebed.base.errors import Corrupt, DiskError
from lakebed.base.files import make_folders
from lakebed.kernels.disk import real_disk
from lakebed.node.demo import verify, writer
from lakebed.node.demo.writer import Acknowledgement
from lakebed.spark.errors import SparkUnavailable

Report = Callable[[str], None]
ACKNOWLEDGED_COUNT = 500_000  # records; then the writer is killed


def run(*, scratch: Path | None, report: Report, seed: int) -> dict[str, object]:
    """Walk through it all; an error if a single acknowledged record is missing anywhere."""
    with ExitStack() as stack:
        if scratch is None:
            scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lakebed-demo-")))
        folder = scratch / "records"
        make_folders(real_disk(), folder)
        if real_disk().names(folder):
            raise DiskError("demo", folder, why="not empty: give a new folder")
        kind = "compiled" if kernels.COMPILED else "reference (slow: no compiler was there)"
        report(f"kernels   {kind}")
        summary: dict[str, object] = {"kernels_compiled": kernels.COMPILED, "seed": seed}
        ledger, seconds = _write_and_kill(folder, report)
        found = _verify(folder, ledger, report)
        summary |= {
            "records_acknowledged": len(ledger) * writer.BATCH_COUNT,
            "records_found": found,
            "records_per_second": round(len(ledger) * writer.BATCH_COUNT / seconds),
        }
        summary["simulated_crashes"] = _cut_power(seed, report)
        summary["spark"] = _scan_with_spark(folder, found, report)
        report("every count agrees: nothing acknowledged was lost")
        return summary


def _write_and_kill(folder: Path, report: Report) -> tuple[list[Acknowledgement], float]:
    """Start the writer, note what it acknowledges, and kill it in the middle of its work."""
    clock = SystemClock()
    wanted = ACKNOWLEDGED_COUNT // writer.BATCH_COUNT
    ledger: list[Acknowledgement] = []
    start = "import sys; from lakebed.node.demo.writer import main; main(sys.argv[1])"
    command = [sys.executable, "-c", start, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:  # noqa: S603
        assert process.stdout is not None
        started_ns = 0
        for line in process.stdout:
            started_ns = started_ns or clock.monotonic_ns()
            entry = Acknowledgement.parse(line)
            if entry is not None:
                ledger.append(entry)
            if len(ledger) == wanted:
                process.kill()
        seconds = (clock.monotonic_ns() - started_ns) / NS_PER_S
    if len(ledger) < wanted:
        raise DiskError("demo", folder, why=f"the writer stopped early (exit {process.returncode})")
    count = len(ledger) * writer.BATCH_COUNT
    report(
        f"written   {count:,} records of 100 B acknowledged by {writer.FILE_COUNT} files with "
        f"{writer.CALLER_COUNT} callers each, {count / seconds:,.0f}/s; then killed with -9"
    )
    return ledger, seconds


def _verify(folder: Path, ledger: list[Acknowledgement], report: Report) -> int:
    disk = real_disk()
    found = 0
    checked = 0
    for number in range(writer.FILE_COUNT):
        path = writer.file_path(folder, number)
        scan = verify.scan_file(path)
        found += scan.record_count
        mine = [entry for entry in ledger if entry.file == number]
        checked += verify.check_acknowledged(disk, path, mine)
        report(
            f"recovered {scan.record_count:,} whole records in {Path(path).name}, "
            f"up to byte {scan.end:,} ({scan.stop.lower().replace('_', ' ')})"
        )
    if checked != len(ledger) * writer.BATCH_COUNT:
        raise Corrupt("acknowledged records are missing", path=folder, found=checked)
    report(f"checked   all {checked:,} acknowledged records are there")
    return found


def _cut_power(seed: int, report: Report) -> int:
    try:
        from lakebed.node.demo.power_cut import cut_power_everywhere
    except ImportError:
        report("power     not shown: the simulated disk needs lakebed[simulation]")
        return 0
    tried = cut_power_everywhere(seed)
    report(
        f"power     cut {tried:,} times on the simulated disk (seed {seed}): "
        "nothing acknowledged was lost"
    )
    return tried


def _scan_with_spark(folder: Path, found: int, report: Report) -> dict[str, object] | None:
    from lakebed.spark.session import session

    try:
        spark = session()
    except SparkUnavailable as error:
        report(f"spark     not shown: {error}")
        return None
    paths = [writer.file_path(folder, number) for number in range(writer.FILE_COUNT)]
    try:
        scans = spark.sparkContext.parallelize(paths, len(paths)).map(verify.scan_file).collect()
        version = spark.version
    finally:
        spark.stop()
    count = sum(scan.record_count for scan in scans)
    if count != found:
        raise Corrupt("Spark counts other records", path=folder, expected=found, found=count)
    size = sum(scan.payload_bytes for scan in scans)
    report(f"spark     {version} verified {count:,} records, {size:,} bytes, in {len(paths)} tasks")
    return {"version": version, "records": count, "payload_bytes": size}
