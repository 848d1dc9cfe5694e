"""Errors at the edge: what each becomes."""

from __future__ import annotations

import errno
import json

import pytest

from lakebed.base.errors import BadConfig, Busy, Corrupt, LakebedError, NotFound
from lakebed.cli.failure import Failure, describe, report, wants_json
from lakebed.cli.report import one_line, table


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (BadConfig("bad"), Failure("BadConfig", "bad", 78)),
        (NotFound("gone"), Failure("NotFound", "gone", 66)),
        (Busy("wait"), Failure("Busy", "wait", 75)),
        (
            Corrupt("bad checksum", path="a.seg", offset=64),
            Failure("Corrupt", "a.seg: at byte 64: bad checksum", 65),
        ),
        (LakebedError("odd"), Failure("LakebedError", "odd", 70)),
        (KeyboardInterrupt(), Failure("Interrupted", "interrupted", 130)),
        (BrokenPipeError(), Failure("ClosedPipe", "", 141)),
        (MemoryError(), Failure("OutOfMemory", "out of memory", 71)),
        (ImportError("no kernels"), Failure("Incomplete", "no kernels", 69)),
        (SystemExit(3), Failure("SystemExit", "", 3)),
        (
            PermissionError(errno.EACCES, "Permission denied", "a"),
            Failure("PermissionError", "a: Permission denied", 74),
        ),
        (
            FileNotFoundError(errno.ENOENT, "No such file", b"\xff"),
            Failure("FileNotFoundError", "\udcff: No such file", 66),
        ),
        (OSError(errno.ENOSPC, "No space left"), Failure("OSError", "No space left", 75)),
        (OSError("odd"), Failure("OSError", "odd", 74)),
        (OSError(), Failure("OSError", "OSError", 74)),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_an_error_becomes_a_kind_a_message_and_an_exit_code(
    error: BaseException, failure: Failure
) -> None:
    assert describe(error) == failure


def test_what_fails_while_an_interrupt_ends_the_program_is_told_as_an_interrupt() -> None:
    def interrupted_close() -> None:
        try:
            raise KeyboardInterrupt
        finally:
            raise BadConfig("not closed")

    with pytest.raises(BadConfig) as raised:
        interrupted_close()
    assert describe(raised.value) == Failure("Interrupted", "interrupted; not closed", 130)


@pytest.mark.parametrize("error", [ValueError("odd"), ZeroDivisionError(), AssertionError("x\ny")])
def test_anything_else_is_a_bug_and_says_so(error: Exception) -> None:
    failure = describe(error)
    assert failure.exit_code == 70
    assert type(error).__name__ in failure.message
    assert "this is a bug; set LAKEBED_TRACEBACK=1 to see the traceback" in failure.message


def test_a_report_stays_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    failure = Failure("BadName", "a\nb\r\x1b[2J\x00\u2028\udcff\u202e\x85é", 64)
    report(failure, as_json=False, traceback_of=None)
    assert capsys.readouterr().err == ("lakebed: a\\nb\\r\\x1b[2J\\x00\\u2028\\xff\\u202e\\x85é\n")
    report(failure, as_json=True, traceback_of=None)
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    assert json.loads(line)["error"]["message"] == failure.message


def test_an_empty_message_is_not_printed(capsys: pytest.CaptureFixture[str]) -> None:
    report(Failure("ClosedPipe", "", 141), as_json=False, traceback_of=None)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (["--json"], True),
        (["--root", "x", "--json", "config"], True),
        (["--nope", "--json"], True),
        (["config", "--json"], True),
        (["topic", "list", "--root", "x", "--json"], True),
        (["--", "--json"], False),
        (["--root"], False),
        ([], False),
    ],
)
def test_json_is_wanted_wherever_the_option_stands(arguments: list[str], wanted: bool) -> None:
    assert wants_json(arguments) is wanted


def test_plain_text_is_left_as_it_is() -> None:
    assert one_line("größe [red] 日本") == "größe [red] 日本"


def test_a_table_is_aligned_and_its_cells_stay_in_their_row() -> None:
    assert table(("name", "value"), [("a\nb", "1"), ("c", "22")]) == [
        "name  value",
        "a\\nb  1",
        "c     22",
    ]
