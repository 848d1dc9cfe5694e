"""The top level: what it prints, what it imports, and how it ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lakebed.cli.command_groups import GROUPS, Group, lazy_command
from lakebed.version import VERSION
from tests.cli.conftest import Lakebed

pytestmark = pytest.mark.process

HEAVY = {"pyspark", "pandas", "numpy", "pyarrow", "awscrt", "asyncio", "greenlet", "py4j"}
HEAVY |= {"deltalake", "boto3", "botocore", "uvloop", "prometheus_client", "matplotlib", "obstore"}


def test_the_version_is_printed(lakebed: Lakebed) -> None:
    assert lakebed("--version").out == f"lakebed {VERSION}\n"
    assert lakebed("--json", "--version").document() == {"version": VERSION}


def test_the_help_lists_every_group(lakebed: Lakebed) -> None:
    done = lakebed("--help")
    assert (done.exit_code, done.err) == (0, "")
    for group in GROUPS:
        assert group.name in done.out
        assert group.help.split()[0] in done.out


def test_no_arguments_show_the_help_and_count_as_a_usage_error(lakebed: Lakebed) -> None:
    done = lakebed()
    assert "Usage" in done.out
    assert (done.exit_code, done.err) == (2, "")


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.name)
def test_every_group_shows_its_help(lakebed: Lakebed, group: tuple[str, str, str]) -> None:
    done = lakebed(group[0], "--help")
    assert (done.exit_code, done.err) == (0, "")
    assert "Usage" in done.out
    assert "--install-completion" not in done.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["cofnig"], "No such command 'cofnig'. Did you mean 'config'? (see lakebed --help)"),
        (["config"], "Missing command. (see lakebed config --help)"),
        (["config", "nope"], "No such command 'nope'. (see lakebed config --help)"),
        (["--nope"], "No such option: --nope"),
        (["--root"], "requires an argument"),
        (["config", "check", "extra"], "extra"),
        (["demo", "--seed", "one"], "Invalid value for '--seed'"),
        (["\x1b[2J\n"], "No such command"),
        (["config", "check", "\x1b[2J\n"], "unexpected extra argument"),
        (["--\x1b[2J\n"], "No such option"),
    ],
)
def test_a_usage_error_is_one_line(lakebed: Lakebed, arguments: list[str], message: str) -> None:
    done = lakebed(*arguments)
    assert message in done.error_line()
    assert done.exit_code == 2


def test_a_usage_error_as_json_is_one_document(lakebed: Lakebed) -> None:
    for arguments in (["--json", "--nope"], ["--root", "x", "--json", "nope"]):
        done = lakebed(*arguments)
        error = json.loads(done.err)["error"]
        assert (error["kind"], error["exit_code"], done.exit_code) == ("Usage", 2, 2)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--root", "here", "--json", "config", "show"],
        ["config", "--root", "here", "show", "--json"],
        ["config", "show", "--json", "--root=here"],
        ["--root", "elsewhere", "config", "show", "--root", "here", "--json"],
        ["config", "--json", "show", "--root", "here", "--"],
    ],
)
def test_the_global_options_may_stand_anywhere(lakebed: Lakebed, arguments: list[str]) -> None:
    done = lakebed(*arguments)
    assert done.exit_code == 0, done.err
    root = json.loads(done.out)["root"]
    assert (root["path"], root["origin"]) == ("here", "--root")


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.name)
def test_every_command_takes_the_global_options(group: tuple[str, str, str]) -> None:
    context = lazy_command(Group(*group)).make_context(group[0], ["--help"], resilient_parsing=True)
    left = [context.command]
    while left:
        command = left.pop()
        left += getattr(command, "commands", {}).values()
        options = [option for one in command.params for option in one.opts]
        assert {"--root", "--json"} <= set(options), command.name
        assert len(options) == len(set(options)), command.name


def test_a_root_that_lacks_its_value_is_refused_anywhere(lakebed: Lakebed) -> None:
    done = lakebed("config", "show", "--json", "--root")
    assert "'--root' requires an argument" in json.loads(done.err)["error"]["message"]
    done = lakebed("config", "show", "--root", "")
    assert done.error_line() == "--root is empty: give a folder or a URL"


def imported(arguments: list[str], tmp_path: Path, environment: dict[str, str]) -> set[str]:
    program = (
        "import sys\n"
        "from lakebed.cli.main import main\n"
        "code = main(sys.argv[1:])\n"
        "print('\\n'.join(sys.modules), file=sys.stderr)\n"
        "sys.exit(code)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stderr.splitlines())


def test_the_help_imports_no_group_and_nothing_heavy(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    modules = imported(["--help"], tmp_path, environment)
    assert not modules & {group.module for group in GROUPS}
    assert not modules & HEAVY
    assert "lakebed.base.errors" in modules


@pytest.mark.parametrize(
    "arguments",
    [
        ["--version"],
        ["config", "show"],
        ["aof", "--help"],
        ["topic", "--help"],
        ["serve", "--help"],
    ],
    ids=" ".join,
)
def test_what_needs_no_engine_imports_nothing_heavy(
    arguments: list[str], tmp_path: Path, environment: dict[str, str]
) -> None:
    modules = imported(arguments, tmp_path, environment)
    assert not modules & HEAVY
    assert "lakebed.store.store" not in modules


def test_config_check_imports_nothing_heavy_and_no_other_group(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    modules = imported(["--root", ".", "config", "check"], tmp_path, environment)
    assert "lakebed.cli.config" in modules
    assert "lakebed.cli.demo" not in modules
    assert not modules & {"pyspark", "pandas", "numpy", "pyarrow", "rich"}


def test_a_closed_pipe_is_quiet(tmp_path: Path, environment: dict[str, str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "lakebed.cli", "--version"],
        cwd=tmp_path,
        env=environment,
        stdout=writing,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize("closed", [1, 2])
@pytest.mark.parametrize("arguments", [[], ["--version"], ["--help"], ["nope"]], ids=str)
def test_a_stream_that_was_closed_before_the_start_breaks_nothing(
    environment: dict[str, str], arguments: list[str], closed: int
) -> None:
    done = subprocess.run(
        ["sh", "-c", f'exec "$0" -m lakebed.cli "$@" {closed}>&-', sys.executable, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == (2 if arguments in ([], ["nope"]) else 0)
    assert "Traceback" not in done.stderr
    assert "bug" not in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_behind_standard_output_is_one_line(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "lakebed.cli", "--version"],
            cwd=tmp_path,
            env=environment,
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert done.stderr == b"lakebed: No space left on device\n"
    assert done.returncode == 75


def test_any_character_is_printed_in_any_locale(lakebed: Lakebed, tmp_path: Path) -> None:
    folder = tmp_path / "größe"
    folder.mkdir()
    done = lakebed("--root", "größe", "config", "check", PYTHONIOENCODING="ascii")
    assert done.exit_code == 0
    assert "gr\\xf6\\xdfe/lakebed.toml" in done.out


def test_a_traceback_is_shown_on_request_alone(lakebed: Lakebed) -> None:
    done = lakebed("--root", "missing", "config", "check", LAKEBED_TRACEBACK="1")
    assert "Traceback" in done.err
    assert done.err.splitlines()[-1] == "lakebed: missing: no such root (from --root)"
    assert done.exit_code == 66


def test_a_wrong_kernel_choice_is_one_line(lakebed: Lakebed) -> None:
    done = lakebed("config", "show", LAKEBED_KERNELS="fast\x1b[2J")
    assert "LAKEBED_KERNELS" in done.error_line()
    assert done.exit_code == 69


def test_the_installed_command_is_the_same_program(environment: dict[str, str]) -> None:
    command = Path(sys.executable).with_name("lakebed")
    if not command.exists():
        pytest.skip("the package is not installed here")
    done = subprocess.run([command, "--version"], env=environment, capture_output=True, check=True)
    assert done.stdout.decode() == f"lakebed {VERSION}\n"
