"""Shell completion: in a real bash, and as the scripts of zsh and fish ask for it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lakebed.cli.command_groups import GROUPS
from lakebed.cli.completion import SCRIPTS, Shell
from tests.cli.conftest import Lakebed

pytestmark = pytest.mark.process

# What bash does when tab is pressed: it finds the function that `complete` has registered for the
# command, sets the words and the place of the cursor, and calls it.
_PRESS_TAB = """
eval "$(lakebed completion bash)"
read -r -a COMP_WORDS <<<"$1"
if [[ "$1" == *' ' ]]; then COMP_WORDS+=(''); fi
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
registered=$(complete -p lakebed)
[[ $registered =~ -F\\ ([^ ]+) ]]
"${BASH_REMATCH[1]}" lakebed "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """An environment in which `lakebed` is a command."""
    programs = tmp_path / "programs"
    programs.mkdir()
    command = programs / "lakebed"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m lakebed.cli "$@"\n')
    command.chmod(0o755)
    return {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(tmp_path), "LC_ALL": "C.UTF-8"}


def tab(typed: str, environment: dict[str, str]) -> list[str]:
    """What bash offers after that."""
    done = subprocess.run(
        ["bash", "--norc", "-e", "-c", _PRESS_TAB, "bash", typed],
        env=environment,
        cwd=environment["HOME"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return [line for line in done.stdout.splitlines() if line]


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("lakebed to", ["topic"]),
        ("lakebed --root data to", ["topic"]),
        ("lakebed --js", ["--json"]),
        ("lakebed ", [group.name for group in GROUPS]),
        ("lakebed topic pro", ["produce"]),
        ("lakebed topic produce orders --part", ["--partition"]),
        ("lakebed aof convert orders 0 --to ", ["interchange", "runtime"]),
        ("lakebed s3 buckets cr", ["create"]),
        ("lakebed spark run tier", ["tier-history"]),
        ("lakebed completion ", ["bash", "zsh", "fish"]),
        ("lakebed topic consume ", []),  # a name of the store: bash offers files
    ],
)
def test_bash_completes(typed: str, offered: list[str], home: dict[str, str]) -> None:
    assert tab(typed, home) == offered


def test_zsh_and_fish_get_names_with_their_help(lakebed: Lakebed) -> None:
    zsh = lakebed(_LAKEBED_COMPLETE="complete_zsh", _TYPER_COMPLETE_ARGS="lakebed to")
    assert zsh.out.startswith('_arguments \'*: :(("topic":"Create topics')
    asked = {"_LAKEBED_COMPLETE": "complete_fish", "_TYPER_COMPLETE_ARGS": "lakebed to"}
    fish = lakebed(**asked, _TYPER_COMPLETE_FISH_ACTION="get-args")
    assert fish.out.startswith("topic\tCreate topics")
    assert lakebed(**asked, _TYPER_COMPLETE_FISH_ACTION="is-args").exit_code == 0
    asked["_TYPER_COMPLETE_ARGS"] = "lakebed topic consume "
    assert lakebed(**asked, _TYPER_COMPLETE_FISH_ACTION="is-args").exit_code == 1


def test_the_script_is_printed_as_it_is(lakebed: Lakebed) -> None:
    for shell in Shell:
        assert lakebed("completion", shell.value).out == SCRIPTS[shell]
        document = lakebed("--json", "completion", shell.value).document()
        assert document == {"shell": shell.value, "script": SCRIPTS[shell]}
    assert lakebed("completion", "csh").exit_code == 2


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_one_of_its_shell(shell: str) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"no {shell} here")
    script = SCRIPTS[Shell(shell)]
    subprocess.run([program, "-n"], input=script, text=True, check=True, timeout=60)


def test_nothing_is_opened_to_complete(lakebed: Lakebed, tmp_path: Path) -> None:
    words = {"COMP_WORDS": "lakebed\ntopic\nlist\n", "COMP_CWORD": "3"}
    done = lakebed(_LAKEBED_COMPLETE="complete_bash", **words)
    assert (done.exit_code, done.out.strip(), done.err) == (0, "", "")
    assert list(tmp_path.iterdir()) == []
