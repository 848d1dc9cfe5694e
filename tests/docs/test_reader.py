"""The reader notices failures, wrong output, and processes that never started."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.blocks import blocks
from tests.docs.reader import Reader

pytestmark = pytest.mark.process

NODE = """\
```sh background
echo 'HTTP API on 9001'; echo "export AWS_ACCESS_KEY_ID='a b'"; sleep 600 # as lakebed serve does
```
"""


def follow(page: str, folder: Path) -> Reader:
    with Reader(folder) as reader:
        reader.follow(blocks(page))
    return reader


def sh(script: str, *, expected: str = "", mark: str = "") -> str:
    printed = f"```text\n{expected}\n```\n" if expected else ""
    return f"```sh{mark}\n{script}\n```\n{printed}"


def test_blocks_run_in_order_in_one_folder_with_the_variables_of_those_before(
    tmp_path: Path,
) -> None:
    page = sh("export FRUIT='figs and\ndates'; echo one > file")
    page += "```python\nimport os\nprint(open('file').read() + os.environ['FRUIT'])\n```\n"
    page += sh('echo "$FRUIT"; cat file', expected="figs and\n…\none")
    reader = follow(page, tmp_path)
    assert reader.printed == ["", "one\nfigs and\ndates\n", "figs and\ndates\none\n"]


@pytest.mark.parametrize(
    "page",
    [
        sh("false; true"),
        sh("false | true"),
        sh("echo one", expected="two"),
        "```python\nraise SystemExit(1)\n```\n",
        sh("true", mark=" background"),  # printed nothing
        sh("trap '' INT; echo one; exit 3", mark=" background"),  # also if Ctrl-C comes first
        sh("echo one; sleep 600", expected="two", mark=" background"),
        sh("export AWS_ACCESS_KEY_ID=…"),  # no node has printed it
        sh("curl -sS http://127.0.0.1:9001/"),  # nothing listens
    ],
)
def test_failures_are_reported(page: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        follow(page, tmp_path)


def test_what_is_marked_is_not_run(tmp_path: Path) -> None:
    assert follow(sh("exit 1", mark=" not-run"), tmp_path).printed == []


def test_ports_are_free_ones_and_keys_those_of_the_node(tmp_path: Path) -> None:
    page = NODE + sh('export AWS_ACCESS_KEY_ID=…; echo "$AWS_ACCESS_KEY_ID 9000 19000"')
    (printed,) = follow(page, tmp_path).printed
    *key, port, other = printed.split()
    assert (key, other) == (["a", "b"], "19000")
    assert port != "9000"


def test_the_key_that_was_created_last_is_used(tmp_path: Path) -> None:
    page = sh("echo 'access key  LAKEFIRST'") + sh("echo 'access key  LAKELAST'")
    assert follow(page + sh("echo LAKE…"), tmp_path).printed[-1] == "LAKELAST\n"


def test_a_node_runs_until_the_page_says_to_stop_it(tmp_path: Path) -> None:
    page = NODE.replace("sleep 600", "trap 'echo ended >> ended; exit 0' INT; sleep 600 & wait")
    page += sh("test ! -e ended") + "\nStop the node of above with Ctrl-C, then:\n\n"
    follow(page + NODE + sh("cat ended", expected="ended"), tmp_path)


def test_a_second_node_needs_the_first_to_be_stopped(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="another node is running"):
        follow(NODE + NODE, tmp_path)
