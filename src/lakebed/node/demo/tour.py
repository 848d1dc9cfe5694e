"""The stations of the demo, in order, and the summary at the end."""

from __future__ import annotations

import logging
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
from lakebed.node.demo import objects, queue, verify, writer
from lakebed.node.demo.writer import Acknowledgement
from lakebed.spark.errors import SparkUnavailable
from lakebed.store.store import Store

Report = Callable[[str], None]
ACKNOWLEDGED_COUNT = 500_000  # records; then the writer is killed


def run(*, scratch: Path | None, report: Report, seed: int) -> dict[str, object]:
    """Walk through it all; an error if a single acknowledged record is missing anywhere."""
    with ExitStack() as stack:
        if scratch is None:
            scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lakebed-demo-")))
        root = scratch / "store"
        if real_disk().exists(root):
            raise DiskError("demo", root, why="it is there already: give a new folder")
        make_folders(real_disk(), root)
        kind = "compiled" if kernels.COMPILED else "reference (slow: no compiler was there)"
        report(f"kernels   {kind}")
        summary: dict[str, object] = {"kernels_compiled": kernels.COMPILED, "seed": seed}
        ledger, seconds = _write_and_kill(root, report)
        found, paths = _verify(root, ledger, report)
        summary |= {
            "records_acknowledged": len(ledger) * writer.BATCH_COUNT,
            "records_found": found,
            "records_per_second": round(len(ledger) * writer.BATCH_COUNT / seconds),
        }
        summary["queue"] = _settle_a_queue(root, report)
        summary["objects"] = _keep_objects(root, seed, report)
        summary["simulated_crashes"] = _cut_power(seed, report)
        summary["spark"] = _scan_with_spark(paths, found, report)
        summary["tiers"] = _through_the_tiers(root, found, report)
        report("every count agrees: nothing acknowledged was lost")
        return summary


def _write_and_kill(root: Path, report: Report) -> tuple[list[Acknowledgement], float]:
    """Start the writer, note what it acknowledges, and kill it in the middle of its work."""
    clock = SystemClock()
    wanted = ACKNOWLEDGED_COUNT // writer.BATCH_COUNT
    ledger: list[Acknowledgement] = []
    start = "import sys; from lakebed.node.demo.writer import main; main(sys.argv[1])"
    command = [sys.executable, "-c", start, str(root)]
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
        raise DiskError("demo", root, why=f"the writer stopped early (exit {process.returncode})")
    count = len(ledger) * writer.BATCH_COUNT
    report(
        f"written   {count:,} records of 100 B acknowledged by {writer.LOG_COUNT} logs with "
        f"{writer.CALLER_COUNT} callers each, {count / seconds:,.0f}/s; then killed with -9"
    )
    return ledger, seconds


def _verify(root: Path, ledger: list[Acknowledgement], report: Report) -> tuple[int, list[str]]:
    """Open the store again and look for everything in the ledger."""
    found = 0
    checked = 0
    paths: list[str] = []
    with Store.open(root) as store:
        for number in range(writer.LOG_COUNT):
            log = store.log(writer.log_name(number))
            count = sum(len(batch) for batch in log.read_batches())
            found += count
            mine = [entry for entry in ledger if entry.log == number]
            checked += verify.check_acknowledged(log, mine)
            segments = log.segments()
            paths += [info.path for info in segments]
            report(
                f"recovered {count:,} records in {len(segments)} segments of {log.name}, "
                f"{log.recovered.torn_bytes:,} torn bytes cut"
            )
    if checked != len(ledger) * writer.BATCH_COUNT:
        raise Corrupt("acknowledged records are missing", path=root, found=checked)
    report(f"checked   all {checked:,} acknowledged records are there")
    return found, paths


def _through_the_tiers(root: Path, found: int, report: Report) -> dict[str, int]:
    """Move every segment to Tier 2 and off the local disk, and read all of it from there."""
    count = moved = size = compressed = 0
    with Store.open(root) as store:
        for number in range(writer.LOG_COUNT):
            log = store.log(writer.log_name(number))
            log.seal_current_segment()
            log.tiers.upload()
            moved += len(log.tiers.evict(warm=True))
            count += sum(len(batch) for batch in log.read_batches())
            places = log.tiers.residency()
            size += sum(place.durable_bytes for place in places)
            compressed += sum(place.compressed_bytes for place in places)
    if count != found:
        raise Corrupt("Tier 2 has other records", path=root, expected=found, found=count)
    report(
        f"tiers     {moved} segments moved to Tier 2, {size:,} bytes as {compressed:,}; "
        f"all {count:,} records read back from there"
    )
    return {"segments": moved, "records": count, "bytes": size, "compressed_bytes": compressed}


def _settle_a_queue(root: Path, report: Report) -> dict[str, int]:
    result = queue.produce_and_settle(root)
    report(
        f"queue     {result.produced:,} messages in {queue.PARTITIONS} partitions leased and acked "
        f"across a restart, {result.delivered - result.produced:,} of them given back in between; "
        "each was settled once"
    )
    return result._asdict()


def _keep_objects(root: Path, seed: int, report: Report) -> dict[str, int]:
    kept = objects.put_and_read(root, seed=seed)
    report(
        f"objects   {kept.objects:,} objects in {kept.versions:,} versions: {kept.byte_count:,} "
        f"bytes read back and verified after a restart; of {objects.RACERS} who put if absent "
        "one won"
    )
    return kept._asdict()


def _cut_power(seed: int, report: Report) -> int:
    try:
        from lakebed.node.demo.power_cut import cut_power_everywhere
    except ImportError:
        report("power     not shown: the simulated disk needs lakebed[simulation]")
        return 0
    engines = logging.getLogger("lakebed.aof")
    level = engines.level
    engines.setLevel(logging.CRITICAL)  # what recovery says of a thousand wrecks
    try:
        tried = cut_power_everywhere(seed)
    finally:
        engines.setLevel(level)
    report(
        f"power     cut {tried:,} times on the simulated disk (seed {seed}): "
        "nothing acknowledged was lost"
    )
    return tried


def _scan_with_spark(paths: list[str], found: int, report: Report) -> dict[str, object] | None:
    from lakebed.spark.session import session

    try:
        spark = session()
    except SparkUnavailable as error:
        report(f"spark     not shown: {error}")
        return None
    try:
        context = spark.sparkContext
        scans = context.parallelize(paths, len(paths)).map(verify.scan_segment).collect()
        version = spark.version
    finally:
        spark.stop()
    count = sum(scan.record_count for scan in scans)
    if count != found:
        raise Corrupt("Spark counts other records", expected=found, found=count)
    size = sum(scan.payload_bytes for scan in scans)
    report(f"spark     {version} verified {count:,} records, {size:,} bytes, in {len(paths)} tasks")
    return {"version": version, "records": count, "payload_bytes": size}
