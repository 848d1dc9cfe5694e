"""The Dockerfile: no image is built here, but what it copies is there, it keeps to what is good for
images, and its commands run against this package."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from lakebed.cli.main import main
from lakebed.node.config import NodeConfig
from tests.http.certificates import write_pair
from tests.packaging.dockerfile import Instruction, only, read, variables
from tests.s3.endpoint import Endpoint
from tests.tidy.repository import ROOT

STAGES = read((ROOT / "Dockerfile").read_text(encoding="utf-8"))
FIRST, BUILD, FINAL = STAGES
RUNS = [one.text for stage in STAGES for one in stage if one.name == "RUN"]
DOCKER_STOPS_AFTER_S = 10


def ignored() -> tuple[list[str], set[str]]:
    """What .dockerignore lets in by name, and all its other lines."""
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    return [rule[1:] for rule in rules if rule.startswith("!")], set(rules)


def copied() -> list[str]:
    """Sources of the build's context."""
    found = [one.words for one in BUILD if one.name == "COPY"]
    return [word for words in found for word in words[:-1] if not word.startswith("--")]


def test_every_file_that_is_copied_is_there_and_is_given_to_the_build() -> None:
    allowed, rules = ignored()
    assert sorted(copied()) == sorted(allowed)
    assert all((ROOT / name).exists() for name in copied())
    assert "*" in rules
    assert {"**/*.so", "**/__pycache__"} <= rules
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {"README.md", *project["license-files"], "setup.py"} <= set(copied())


def test_both_stages_have_the_same_python_and_one_that_the_package_runs_on() -> None:
    version = only(FIRST, "ARG").text.partition("=")[2]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert f"Programming Language :: Python :: {version}" in project["classifiers"]
    images = [only(stage, "FROM").words[0] for stage in (BUILD, FINAL)]
    assert len(set(images)) == 1
    assert re.fullmatch(r"python:\$\{PYTHON\}-slim-[a-z]+", images[0])


def test_layers_hold_no_caches_and_pins_are_used() -> None:
    for text in RUNS:
        if "apt-get install" in text:
            assert "--no-install-recommends" in text
            assert "rm -rf /var/lib/apt/lists/*" in text
        for command in text.split("&&"):
            if "pip install" in command:
                assert "--no-cache-dir" in command
                assert "--constraint constraints.txt" in command
        assert "sudo" not in text
    assert not [one for stage in STAGES for one in stage if one.name == "ADD"]
    assert any("LAKEBED_REQUIRE_KERNELS=1" in text for text in RUNS)
    (taken,) = (one.words for one in FINAL if one.name == "COPY")
    assert taken == ["--from=build", "/opt/lakebed", "/opt/lakebed"]


def test_it_runs_as_a_user_of_its_own_who_owns_the_volume() -> None:
    user = only(FINAL, "USER").text
    (making,) = (one.text for one in FINAL if one.name == "RUN")
    root = variables(FINAL)["LAKEBED_ROOT"]
    assert making.partition("useradd ")[2].partition("&&")[0].split()[-1] == user != "root"
    assert re.search(rf"--owner {user} .* {root}$", making)
    assert only(FINAL, "VOLUME").text == root
    names = [one.name for one in FINAL]
    assert names.index("RUN") < names.index("USER") < names.index("ENTRYPOINT")


def test_no_secret_is_in_the_image_and_ports_are_those_of_a_node() -> None:
    assert not [name for name in variables(FINAL) if "SECRET" in name or "ACCESS_KEY" in name]
    ports = {NodeConfig().s3_port, NodeConfig().http_port}
    assert {int(port) for port in only(FINAL, "EXPOSE").words} == ports


def test_requests_under_way_may_end_before_docker_kills() -> None:
    assert only(FINAL, "STOPSIGNAL").text == "SIGTERM"
    drain_s = float(variables(FINAL)["LAKEBED_NODE_DRAIN_S"])
    assert 0 < drain_s < DOCKER_STOPS_AFTER_S


def entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **more: str) -> int:
    """The exit code of a dry run, with what the image says."""
    given = only(FINAL, "ENTRYPOINT")
    assert given.is_exec_form
    assert given.words[0] == "lakebed"
    for name, value in (variables(FINAL) | {"LAKEBED_ROOT": str(tmp_path)} | more).items():
        if name.startswith("LAKEBED_"):
            monkeypatch.setenv(name, value)
    return main([*given.words[1:], "--dry-run"])


def test_what_the_image_says_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert entry(tmp_path, monkeypatch) == 0
    pattern = re.compile(r"^node\.(\w+) +(\S+) +LAKEBED_", re.MULTILINE)
    shown = dict(pattern.findall(capsys.readouterr().out))
    assert shown["s3_host"] == "0.0.0.0"  # noqa: S104 - what the image says
    assert {"http_host", "log_format", "drain_s"} <= set(shown)


def test_the_api_is_not_opened_without_a_certificate_or_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    everywhere = "0.0.0.0"  # noqa: S104
    assert entry(tmp_path, monkeypatch, LAKEBED_NODE_HTTP_HOST=everywhere) != 0
    assert "--http-insecure" in capsys.readouterr().err
    trusted = {"LAKEBED_NODE_HTTP_HOST": everywhere, "LAKEBED_NODE_HTTP_INSECURE": "true"}
    assert entry(tmp_path, monkeypatch, **trusted) == 0


def health(url: str) -> int:
    """The exit code of the health check, as it would be asked in the container."""
    check = Instruction("CMD", only(FINAL, "HEALTHCHECK").text.partition("CMD ")[2])
    assert check.is_exec_form
    assert check.words[0] == "python"
    done = subprocess.run(
        [sys.executable, *check.words[1:]],
        env={"HEALTH_URL": url},
        capture_output=True,
        check=False,
        timeout=60,
    )
    return done.returncode


@pytest.mark.process
def test_the_health_check_tells_a_node_that_answers_from_one_that_does_not(tmp_path: Path) -> None:
    assert variables(FINAL)["HEALTH_URL"] == f"http://127.0.0.1:{NodeConfig().http_port}/healthz"
    with Endpoint(tmp_path / "plain") as endpoint:
        url = f"{endpoint.http_url}/healthz"
        assert health(url) == 0
        assert health(f"{endpoint.http_url}/none") != 0
    assert health(url) != 0
    write_pair(tmp_path, "first")
    pair = ("--tls-cert", str(tmp_path / "cert.pem"), "--tls-key", str(tmp_path / "key.pem"))
    with Endpoint(tmp_path / "secure", *pair) as endpoint:
        assert endpoint.http_url.startswith("https://")
        assert health(f"{endpoint.http_url}/healthz") == 0
