"""The lines of a node's log: what stands in them, and what never does."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterator
from typing import Any

import pytest

from lakebed.base.events import event
from lakebed.http.request_id import CURRENT
from lakebed.node.logs import ACCESS_LOGGER, NodeLogs

SECRET = 'figs, "plums" and \\pears'  # noqa: S105 - with what quoting changes
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")

_log = logging.getLogger("lakebed.tests")


class Logs:
    def __init__(self) -> None:
        self.stream = io.StringIO()
        self.node = NodeLogs(self.stream, secrets=[SECRET])
        self.configure()

    def configure(
        self, log_format: str = "json", log_level: str = "info", *, access_log: bool = False
    ) -> None:
        self.node.configure(log_format=log_format, log_level=log_level, access_log=access_log)

    def take(self) -> str:
        text = self.stream.getvalue()
        self.stream.truncate(0)
        self.stream.seek(0)
        return text

    def document(self) -> Any:
        (line,) = self.take().splitlines()
        return json.loads(line)


@pytest.fixture
def logs() -> Iterator[Logs]:
    made = Logs()
    yield made
    made.node.close()


def test_a_json_line_has_the_event_and_its_facts(logs: Logs) -> None:
    event(_log, "segment_sealed", log="orders", segment_id=3, ratio=0.5, path=None, all=[1, "x"])
    found = logs.document()
    assert TIME.fullmatch(found.pop("time"))
    assert found == {
        "level": "info",
        "logger": "lakebed.tests",
        "event": "segment_sealed",
        "log": "orders",
        "segment_id": 3,
        "ratio": 0.5,
        "path": None,
        "all": [1, "x"],
    }


def test_a_plain_message_and_a_trace_are_one_json_line_too(logs: Logs) -> None:
    try:
        raise ValueError("no\nluck")
    except ValueError:
        _log.exception("it %s", "failed")
    found = logs.document()
    assert (found["level"], found["message"]) == ("error", "it failed")
    assert found["error_trace"].splitlines()[-2:] == ["ValueError: no", "luck"]


def test_facts_do_not_take_the_place_of_what_a_line_says_itself(logs: Logs) -> None:
    event(_log, "odd", time="never", level2="x", logger="mine", worst=float("inf"))
    found = logs.document()
    assert (found["fact_time"], found["fact_logger"]) == ("never", "mine")
    assert (found["logger"], found["worst"]) == ("lakebed.tests", "inf")


def test_a_console_line_is_one_line_whatever_is_in_it(logs: Logs) -> None:
    logs.configure("console")
    event(_log, "odd", name="two words", path="a\nb\x1b[2J", empty="", quote='"')
    line = logs.take()
    time, level, rest = line.split(maxsplit=2)
    assert TIME.fullmatch(time)
    assert level == "INFO"
    assert rest == 'odd name="two words" path=a\\nb\\x1b[2J empty="" quote="\\""\n'


def test_the_lines_of_a_trace_are_told_from_events(logs: Logs) -> None:
    logs.configure("console")
    try:
        raise ValueError("no\n2026-01-31T12:00:00.000Z INFO    forged\r\x1b[2Jluck")
    except ValueError:
        _log.exception("it failed")
    first, *trace = logs.take().split("\n")[:-1]
    assert first.endswith("ERROR   it failed")
    assert all(one.startswith("    ") and one.isprintable() for one in trace)
    assert [one.strip() for one in trace[-3:]] == [
        "ValueError: no",
        "2026-01-31T12:00:00.000Z INFO    forged",
        "\\x1b[2Jluck",
    ]


def test_a_secret_that_is_a_part_of_another_leaves_nothing_of_it(logs: Logs) -> None:
    logs.node.hide("nuts and dates", "nuts and dates and limes")
    _log.warning("nuts and dates and limes")
    assert logs.document()["message"] == "(hidden)"


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_secrets_are_in_no_line(logs: Logs, log_format: str) -> None:
    logs.configure(log_format)
    secrets: dict[str, Any] = dict.fromkeys(("secret_key", "token", "password"), "short")
    event(_log, "key", **secrets, access_key="LAKE")
    event(_log, "odd", why=f"wrong: {SECRET}!", alone=SECRET, all=[SECRET], error=KeyError(SECRET))
    _log.warning("plain %s", SECRET)
    for kind in (ValueError, KeyError):  # as it is, and as `repr` has it
        try:
            raise kind(SECRET)
        except kind:
            _log.exception("trace")
    logs.node.hide("another secret")
    _log.warning("plain another secret")
    text = logs.take()
    assert not any(part in text for part in ("figs", "plums", "pears")), "however it is quoted"
    assert "another secret" not in text
    assert "short" not in text
    assert text.count("(hidden)") == 3 + 4 + 1 + 2 + 1
    assert "LAKE" in text


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_lines_of_a_request_have_its_id(logs: Logs, log_format: str) -> None:
    logs.configure(log_format)
    token = CURRENT.set("00FF")
    event(_log, "one", a=1)
    _log.warning("two")
    event(_log, "three", request_id="given")
    CURRENT.reset(token)
    event(_log, "four")
    one, two, three, four = logs.take().splitlines()
    assert "00FF" in one
    assert "00FF" in two
    assert "given" in three
    assert "00FF" not in three
    assert "request_id" not in four


def test_level_and_format_change_while_it_runs(logs: Logs) -> None:
    _log.debug("no")
    logs.configure("console", "debug")
    _log.debug("yes")
    logs.configure("json", "error")
    _log.warning("no")
    _log.error("again")
    first, second = logs.take().splitlines()
    assert first.endswith("DEBUG   yes")
    assert json.loads(second)["message"] == "again"


def test_lines_of_requests_are_written_if_they_are_asked_for(logs: Logs) -> None:
    access = logging.getLogger(ACCESS_LOGGER)
    event(access, "request", status=200)
    assert logs.take() == ""
    logs.configure("json", "error", access_log=True)  # whatever else is logged
    event(access, "request", status=200)
    assert logs.document()["status"] == 200


def test_others_are_heard_from_warnings_on(logs: Logs) -> None:
    logs.configure("json", "debug")
    logging.getLogger("somebody").info("no")
    logging.getLogger("somebody").warning("yes")
    assert logs.document()["message"] == "yes"


def test_what_was_there_before_is_put_back() -> None:
    root, ours = logging.getLogger(), logging.getLogger("lakebed")
    before = (root.handlers[:], root.level, ours.level)
    made = Logs()
    assert root.handlers != before[0]
    made.node.close()
    assert (root.handlers[:], root.level, ours.level) == before


def test_without_a_standard_error_nothing_is_written_and_nothing_fails() -> None:
    node = NodeLogs(None)
    node.configure(log_format="json", log_level="info", access_log=False)
    _log.error("nobody hears it")
    node.close()
