"""What is typed at `lakebed spark run`: ranges, places, and what is refused before Spark starts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakebed.base.errors import InputError
from lakebed.cli import places
from lakebed.cli.spark_arguments import files_place, span_of
from lakebed.cli.spark_options import SparkOptions
from lakebed.host.store import Store
from tests.cli.conftest import Lakebed
from tests.cli.in_process import Run
from tests.spark.messages import fill_special
from tests.spark.sinks import make_topic

NOBODY = "http://127.0.0.1:9"


def span(start: list[str] | None = None, end: list[str] | None = None, **named: object) -> object:
    return span_of(offsets=(start, end), times=(None, None), partitions=None, **named)  # type: ignore[arg-type]


def test_offsets_have_a_partition_or_are_of_all() -> None:
    found = span_of(offsets=(["17", "2:5"], ["100"]), times=("1000", None), partitions=[1, 2])
    assert found.start == {None: 17, 2: 5}
    assert found.end == {None: 100}
    assert (found.time_start_us, found.time_end_us) == (1_000_000, None)
    assert found.partitions == (1, 2)


def test_of_a_log_they_are_record_ids() -> None:
    found = span_of(offsets=(["3:64"], None), times=(None, None), partitions=None, is_log=True)
    assert found.start == {None: "3:64"}


@pytest.mark.parametrize("text", ["", "x", "1:", ":1", "-1", "1:2:3", "9" * 30, "²"])
def test_what_is_no_offset_is_refused(text: str) -> None:
    with pytest.raises(
        InputError, match=r"--from-offset .*: write it as OFFSET, or PARTITION:OFFSET"
    ):
        span([text])


def test_ranges_that_contradict_themselves_are_refused() -> None:
    with pytest.raises(InputError, match="the partition is given twice"):
        span(None, ["1:2", "1:3"])
    with pytest.raises(InputError, match="can be given only once if the source is a log"):
        span(["1:2", "1:3"], is_log=True)
    with pytest.raises(InputError, match="a log has no partitions"):
        span_of(offsets=(None, None), times=(None, None), partitions=[0], is_log=True)


def test_files_are_in_a_folder_or_in_a_bucket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert files_place("out", {}).base == str(tmp_path / "out")
    s3 = {"s3Endpoint": "http://127.0.0.1:1", "accessKey": "a", "secretKey": "b"}
    found = files_place("s3://lake/a/b/", s3)
    assert (found.base, str(found)) == ("lake/a/b", "s3://lake/a/b")
    with pytest.raises(InputError, match="give a folder, or s3://bucket/prefix"):
        files_place("gs://lake/a", {})
    with pytest.raises(InputError, match="must be bucket/prefix"):
        files_place("s3://lake", s3)


def test_options_of_spark_are_names_and_values() -> None:
    assert SparkOptions(conf=["spark.a=b=c", "spark.d="]).spark_options() == {
        "spark.a": "b=c",
        "spark.d": "",
    }
    for text in ("spark.a", "master=local", "=x"):
        with pytest.raises(InputError, match=r"write it as spark\.NAME=VALUE"):
            SparkOptions(conf=[text]).spark_options()
    with pytest.raises(InputError, match="--master and --remote cannot be combined"):
        SparkOptions(master="a", remote="b").spark_options()


MISTAKES = [
    (["repaly"], 2, "No such command 'repaly'. Did you mean 'replay'?"),
    (["replay", "a"], 2, "Missing argument 'TOPIC'"),
    (["replay", "a", "b", "--nope"], 2, "No such option: --nope"),
    (["replay", "nope", "b"], 66, "there is no topic nope; existing topics: orders"),
    (["replay", "orders", "nope"], 66, "no topic nope, and the job was not asked to create it"),
    (
        ["replay", "orders", "orders", "--partition", "7"],
        66,
        "partition 7 does not exist (number of partitions: 1)",
    ),
    (["replay", "orders", "orders", "--from-offset", "x"], 64, "write it as OFFSET"),
    (["replay", "orders", "orders", "--from-time", "noon"], 64, "'noon' is not a time"),
    (["replay", "orders", "orders", "--partitions", "2"], 64, "can only be set together"),
    (
        ["replay", "orders", "orders", "--conf", "x=y"],
        64,
        "--conf 'x=y': write it as spark.NAME=VALUE",
    ),
    (["replay", "nope", "orders", "--log"], 66, "no log nope"),
    (["export", "orders", "x", "--file-size", "big"], 64, "'big' is not a size"),
    (["import", "nowhere", "orders"], 66, "nowhere: no such file or folder"),
    (["import", "x", "nope"], 66, "no topic nope"),
    (["land", "lake/t"], 78, "name at least one topic or log"),
    (["land", "lake/t", "--topic", "nope"], 66, "there is no topic nope"),
    (["land", "lake", "--topic", "orders"], 78, "it must be bucket/prefix"),
    (["land", "lake/t", "--topic", "orders", "--format", "orc"], 2, "--format"),
    (["land", "lake/t", "--topic", "orders", "--vacuum-hours", "1"], 64, "the minimum is 168"),
    (["land", "lake/t", "--topic", "orders", "--widen"], 78, "nothing to widen"),
    (
        ["land", "lake/t", "--topic", "orders", "--retry-dead-letters"],
        78,
        "no dead letters to retry",
    ),
    (["replay", "orders", "orders", "--endpoint", NOBODY], 75, "127.0.0.1:9"),
    (["tier-history", "nope"], 66, "has no log nope; it has: none"),
    (["tier-history", "--endpoint", NOBODY], 75, "127.0.0.1:9"),
    (["tier-history", "--ca-file", "x"], 64, "--ca-file can only be used with --endpoint"),
    (["verify", "--endpoint", "127.0.0.1:9"], 78, "endpoint must be a URL"),
    (["verify", "--ca-file", "x"], 64, "--ca-file can only be used with --endpoint"),
    (["verify", "--remote", "127.0.0.1"], 64, "expected sc://HOST:PORT"),
    (["verify", "--remote", "sc://127.0.0.1:9"], 69, "no Spark Connect server answers at"),
]


@pytest.mark.parametrize(("arguments", "exit_code", "text"), MISTAKES, ids=lambda one: str(one))
def test_a_mistake_is_one_line_and_spark_is_not_started(
    run: Run, root: Path, arguments: list[str], exit_code: int, text: str
) -> None:
    fill_special(root, "orders", partitions=1, count=2)
    done = run("spark", "run", *arguments)
    assert text in done.error_line()
    assert done.exit_code == exit_code
    assert done.out == b""
    assert done.err.count(b"\n") == 1


def test_a_root_that_is_missing_is_told(run: Run) -> None:
    done = run("spark", "run", "verify")
    assert "no such root (from --root)" in done.error_line()
    assert done.exit_code == 66


def test_a_store_that_somebody_else_has_open_is_told(
    run: Run, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One who serves nobody: a writer that serves is asked to do it."""
    monkeypatch.setattr(places, "LOCK_WAIT_S", 0.1)
    fill_special(root, "orders", partitions=1, count=2)
    with Store.open(root, serves=False):
        done = run("spark", "run", "replay", "orders", "orders")
        assert done.error_line().endswith("is open in another program: stop it first")
        assert done.exit_code == 75
        done = run("spark", "run", "export", "orders", "s3://lake/orders")
        assert (
            "if it is a node, give its S3 endpoint with --s3-endpoint; else stop it"
            in done.error_line()
        )
    with Store.open(root, serves=False):
        done = run("spark", "run", "land", "lake/orders", "--topic", "orders", as_json=True)
        error = json.loads(done.err)["error"]
        assert (error["kind"], error["exit_code"]) == ("Locked", 75)


@pytest.mark.process
def test_what_is_not_installed_is_told(lakebed: Lakebed, tmp_path: Path) -> None:
    make_topic(tmp_path / "root", "t")
    for name in ("pyspark", "pyarrow"):
        (tmp_path / f"{name}.py").write_text("raise ImportError(name=__name__)\n")
        done = lakebed(
            "--root", "root", "spark", "run", "replay", "t", "t", PYTHONPATH=str(tmp_path)
        )
        assert done.error_line() == f"{name} is not installed: install lakebed[spark]"
        assert done.exit_code == 69
        (tmp_path / f"{name}.py").unlink()


@pytest.mark.process
def test_a_java_that_is_missing_is_told(lakebed: Lakebed, tmp_path: Path) -> None:
    make_topic(tmp_path / "root", "t")
    (tmp_path / "sitecustomize.py").write_text(
        "from lakebed.spark import java\njava.candidates = lambda environment: iter(())\n"
    )
    done = lakebed("--root", "root", "spark", "run", "verify", PYTHONPATH=str(tmp_path))
    assert done.error_line().startswith("Spark needs Java 17 or newer: install it")
    assert done.exit_code == 69


@pytest.mark.process
def test_the_help_of_a_job_imports_no_spark(lakebed: Lakebed, tmp_path: Path) -> None:
    for name in ("pyspark", "pyarrow", "numpy"):
        (tmp_path / f"{name}.py").write_text("raise ImportError(name=__name__)\n")
    for job in ("land", "verify", "tier-history", "replay", "export", "import"):
        done = lakebed("spark", "run", job, "--help", PYTHONPATH=str(tmp_path))
        assert (done.exit_code, done.err) == (0, "")
        assert f"lakebed spark run {job}" in done.out
        assert "--master" in done.out
        assert "--remote" in done.out
