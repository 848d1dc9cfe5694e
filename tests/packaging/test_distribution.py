"""What is released: an archive that builds by itself, a wheel with kernels and type hints, and what
a new environment with that wheel can do."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import boto3  # type: ignore[import-untyped,unused-ignore]
import pytest

from lakebed.cli.command_groups import GROUPS
from lakebed.version import VERSION
from tests.packaging.distribution import ROOT, Distribution, built, installed, run

pytestmark = [pytest.mark.build]

SOURCE = ROOT / "src"
COMPILED_NAME = "_compiled" + str(sysconfig.get_config_var("EXT_SUFFIX"))
KEY = {"LAKEBED_ACCESS_KEY": "packaging", "LAKEBED_SECRET_KEY": "a secret of the tests"}
HINTED = """
import lakebed
from lakebed import kernels

with lakebed.Store.open("data") as store:
    reveal_type(store.topic("orders").append_batch([b"figs"]).result())
    reveal_type(store.bucket("photos").read("city.jpg"))
    store.log("orders").append_record(7)
reveal_type(kernels.COMPILED)
"""


@pytest.fixture(scope="module")
def distribution(tmp_path_factory: pytest.TempPathFactory) -> Distribution:
    return built(tmp_path_factory.mktemp("distribution"))


@pytest.fixture(scope="module")
def programs(distribution: Distribution, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the programs of an environment that has the wheel alone."""
    return installed(distribution.wheel, tmp_path_factory.mktemp("environment") / "venv")


@pytest.fixture(scope="module")
def metadata(distribution: Distribution) -> Message:
    with zipfile.ZipFile(distribution.wheel) as wheel:
        (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        return Parser().parsestr(wheel.read(name).decode())


def test_the_archive_has_all_that_a_build_needs_and_nothing_that_was_built(
    distribution: Distribution,
) -> None:
    with tarfile.open(distribution.archive) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    sources = {
        path.relative_to(ROOT).as_posix()
        for path in SOURCE.rglob("*")
        if path.suffix in (".py", ".pyi", ".pyx", ".pxd", ".pxi", ".h", ".properties")
    }
    assert sources <= names
    assert {"LICENSE", "README.md", "CHANGELOG.md", "pyproject.toml", "setup.py"} <= names
    assert {"src/lakebed/py.typed", "examples/README.md", "docs/README.md", "Dockerfile"} <= names
    assert not [name for name in names if name.endswith((".so", ".c", ".pyc"))]


def test_the_wheel_has_kernels_type_hints_the_licence_and_commands(
    distribution: Distribution,
) -> None:
    with zipfile.ZipFile(distribution.wheel) as wheel:
        names = set(wheel.namelist())
        (commands,) = (name for name in names if name.endswith("/entry_points.txt"))
        told = wheel.read(commands).decode()
        licence = wheel.read(f"lakebed-{VERSION}.dist-info/licenses/LICENSE")
        program = wheel.getinfo("lakebed/spark/worker-python")
    assert f"lakebed/kernels/{COMPILED_NAME}" in names
    assert {"lakebed/py.typed", "lakebed/kernels/_compiled.pyi"} <= names
    assert "lakebed/spark/log4j2.properties" in names
    assert program.external_attr >> 16 & 0o111 == 0o111, "it is run"
    assert licence == (ROOT / "LICENSE").read_bytes()
    assert "lakebed = lakebed.cli.main:main" in told
    tops = {name.partition("/")[0] for name in names}
    assert tops == {"lakebed", "pyspark_lakebed", f"lakebed-{VERSION}.dist-info"}


def test_the_metadata_tells_what_it_is_and_what_it_needs(metadata: Message) -> None:
    assert (metadata["Name"], metadata["Version"]) == ("lakebed", VERSION)
    assert (metadata["License-Expression"], metadata["License-File"]) == ("Apache-2.0", "LICENSE")
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert "Typing :: Typed" in metadata.get_all("Classifier", [])
    assert {"spark", "java", "all"} <= set(metadata.get_all("Provides-Extra", []))
    needed = metadata.get_all("Requires-Dist", [])
    always = [line for line in needed if "extra ==" not in line]
    assert any(line.startswith("uvloop") for line in always)
    heavy = ("pyspark", "pyarrow", "numpy", "pandas", "deltalake", "boto3")
    assert not [line for line in always if line.startswith(heavy)]
    of_spark = [line for line in needed if "spark" in line.partition("extra ==")[2]]
    assert any(line.startswith("pyspark") for line in of_spark)


LINK = re.compile(r"\[([^]]+)]\(([^)\s]+)\)")


def test_the_description_is_the_readme_without_links_that_lead_nowhere_on_an_index(
    metadata: Message,
) -> None:
    description = str(metadata.get_payload()).strip()
    readme = (ROOT / "README.md").read_text(encoding="utf-8").strip()
    assert not [target for _, target in LINK.findall(description) if "://" not in target]
    links = LINK.findall(readme)
    assert ("Quick start", "docs/quick-start.md") in links
    for text, target in links:
        assert (f"{text} (`{target}`)" in description) is ("://" not in target)
    assert len(description.splitlines()) == len(readme.splitlines())


def test_the_metadata_names_no_dependency_that_the_kernels_replace(metadata: Message) -> None:
    names = {re.split(r"[<>=\[; ]", line)[0] for line in metadata.get_all("Requires-Dist", [])}
    always = {
        re.split(r"[<>=\[; ]", line)[0]
        for line in metadata.get_all("Requires-Dist", [])
        if "extra ==" not in line
    }
    assert not always & {"awscrt", "crc32c", "cramjam"}
    assert "cramjam" in names


def test_the_wheel_installs_on_any_linux_that_its_kernels_run_on(
    distribution: Distribution,
) -> None:
    assert "-manylinux" in distribution.wheel.name
    assert "-linux_" not in distribution.wheel.name
    with zipfile.ZipFile(distribution.wheel) as wheel:
        tags = wheel.read(f"lakebed-{VERSION}.dist-info/WHEEL").decode()
    assert re.search(r"^Tag: cp\d+-cp\d+-manylinux_2_\d+_\w+$", tags, re.MULTILINE)


def test_a_compressed_batch_without_the_extra_names_it(programs: Path, tmp_path: Path) -> None:
    code = "from lakebed.keratin.compression import *; compress(b'figs', Compression.ZSTD)"
    done = run(programs / "python", "-c", code, cwd=tmp_path)
    assert "install lakebed[codecs]" in done.stderr.splitlines()[-1]


def test_the_installed_command_has_its_version_and_compiled_kernels(
    programs: Path, tmp_path: Path
) -> None:
    done = run(programs / "lakebed", "--version", cwd=tmp_path)
    assert (done.stdout, done.stderr) == (f"lakebed {VERSION}\n", "")
    shown = run(programs / "lakebed", "--json", "config", "show", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert json.loads(shown.stdout)["kernels"]["kind"] == "compiled"


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.name)
def test_every_group_has_its_help_without_extras(
    programs: Path, tmp_path: Path, group: tuple[str, str, str]
) -> None:
    done = run(programs / "lakebed", group[0], "--help", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_without_the_extra_spark_is_told_in_one_line(programs: Path, tmp_path: Path) -> None:
    run(programs / "lakebed", "topic", "create", "orders", cwd=tmp_path)
    done = run(programs / "lakebed", "spark", "run", "verify", cwd=tmp_path)
    assert done.returncode != 0
    assert "lakebed[spark]" in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr


def test_an_installed_node_serves_s3_until_it_is_told_to_stop(
    programs: Path, tmp_path: Path
) -> None:
    command = [str(programs / "lakebed"), "--json", "--root", "data", "serve"]
    command += ["--s3-port", "0", "--http-port", "0"]
    environment = {"PATH": os.environ["PATH"], **KEY}
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
    ) as node:
        assert node.stdout is not None
        lines = [node.stdout.readline()]
        while lines[-1] and lines[-1].rstrip() != "}":
            lines.append(node.stdout.readline())
        client = boto3.client(
            "s3",
            endpoint_url=json.loads("".join(lines))["s3"],
            region_name="us-east-1",
            aws_access_key_id=KEY["LAKEBED_ACCESS_KEY"],
            aws_secret_access_key=KEY["LAKEBED_SECRET_KEY"],
        )
        client.create_bucket(Bucket="photos")
        client.put_object(Bucket="photos", Key="city.jpg", Body=b"figs" * 100_000)
        got = client.get_object(Bucket="photos", Key="city.jpg")["Body"].read()
        client.close()
        node.send_signal(signal.SIGTERM)
        assert node.wait(60) == 0
    assert got == b"figs" * 100_000


def test_mypy_sees_the_type_hints_of_the_installed_package(programs: Path, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(HINTED)
    done = run(
        sys.executable,
        *("-m", "mypy", "--strict", "--python-executable", programs / "python"),
        *("--cache-dir", tmp_path / "cache", "program.py"),
        cwd=tmp_path,
    )
    told = done.stdout.splitlines()
    assert "lakebed" in told[0], told
    assert [line for line in told if "revealed" in line.lower() and "Any" in line] == []
    assert sum("Revealed type is" in line for line in told) == 3
    assert 'has incompatible type "int"' in done.stdout
    assert told[-1].startswith("Found 1 error in 1 file"), told
