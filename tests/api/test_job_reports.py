"""Reports over the wire: the same again, errors included; what is none is refused."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from lakebed.aof.inspection import Verdict
from lakebed.aof.tiers.errors import Missing, Tier2Error, Unauthorised
from lakebed.aof.tiers.log_tiers import Repaired, Residence
from lakebed.aof.tiers.migration import MigrationReport
from lakebed.aof.tiers.segment_tiering import RepairOutcome
from lakebed.api.job_reports import document_of, report_of
from lakebed.api.media import BadDocument
from lakebed.base.errors import Corrupt, LakebedError, TooLarge
from lakebed.seglake.verification_report import Kind, Problem, Report
from lakebed.store.log_check import LogReport
from lakebed.store.repair import RepairReport
from lakebed.store.tier_choice import Skipped
from lakebed.store.tier_moves import Failed, Moved, Outcome
from lakebed.store.topic_repair import TopicRepair
from lakebed.store.topic_verification import LostOffsets, TopicProblem, TopicReport
from lakebed.store.verification import Problem as LogProblem

PLACE = Residence(
    segment_id=3,
    tiers=(0, 1, 2),
    is_sealed=True,
    durable_bytes=4096,
    compressed_bytes=512,
    key="a/key",
    pending=("upload",),
    failures=(),
    needs_repair=False,
)
OUTCOME = Outcome(
    skipped=[Skipped(0, "evicted already")],
    moved=[Moved(PLACE, replace(PLACE, tiers=(2,)), 4608)],
    repaired=[Repaired(3, "a/key", RepairOutcome.LOST)],
)
REPORTS = [
    OUTCOME,
    Outcome(),
    MigrationReport("tier2", "s3://there", 1, 2, 3, 4, ["a/key"], "tier2"),
    RepairReport(12, ("damaged",), ("saved",)),
    TopicRepair(12, ("damaged",), (LostOffsets(0, 3, 5),), ("saved",)),
    TopicReport(
        1, 2, 3, (TopicProblem(0, None, None, 0, "mendable", "an index"),), (), ("a note",)
    ),
    LogReport(1, 2, 3, 4, [5], [LogProblem("path", 96, 7, Verdict.TORN, "an end")]),
    Report(versions=3, problems=[Problem(kind=Kind.OBJECT, why="lost", key="k")], notes=["odd"]),
]


@pytest.mark.parametrize("report", REPORTS, ids=lambda one: type(one).__name__)
def test_a_report_is_the_same_after_the_wire(report: object) -> None:
    document = json.loads(json.dumps(document_of(report)))
    assert report_of(type(report), document) == report


def told(error: LakebedError) -> LakebedError:
    outcome = replace(OUTCOME, failed=[Failed(3, error)], stopped_by=error)
    again = report_of(Outcome, json.loads(json.dumps(document_of(outcome))))
    assert again.stopped_by is not None
    assert str(again.stopped_by) == str(again.failed[0].error)
    return again.failed[0].error


def test_an_error_in_a_report_keeps_class_text_and_facts() -> None:
    for error in (
        Corrupt("bad", path="here", offset=3, expected=1, found=2),
        TooLarge("it", size=3, limit=2),
        Missing("no such object"),
        Unauthorised("refused"),
    ):
        again = told(error)
        assert (type(again), str(again)) == (type(error), str(error))
    again = told(Corrupt("bad", path="here", offset=3))
    assert isinstance(again, Corrupt)
    assert (again.path, again.offset) == ("here", 3)


def test_a_store_that_was_not_reached_is_told() -> None:
    report = LogReport(unreached=Tier2Error("no answer"))
    again = report_of(LogReport, json.loads(json.dumps(document_of(report))))
    assert type(again.unreached) is Tier2Error
    assert str(again.unreached) == "no answer"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"moved": 3}, "Outcome.moved: expected a list"),
        ({"moved": [3]}, "expected a Moved report"),
        ({"skipped": [{"segment_id": 1}]}, "the Skipped report lacks the field why"),
        ({"skipped": [{"segment_id": "1", "why": ""}]}, "Skipped.segment_id: expected int"),
        ({"skipped": [{"segment_id": True, "why": ""}]}, "Skipped.segment_id: expected int"),
        (
            {"repaired": [{"segment_id": 1, "key": "", "outcome": "fine"}]},
            "is not a value of RepairOutcome",
        ),
        ({"stopped_by": "an error"}, "expected a problem"),
    ],
)
def test_what_is_no_report_is_refused(change: dict[str, object], words: str) -> None:
    with pytest.raises(BadDocument, match=words):
        report_of(Outcome, {**document_of(OUTCOME), **change})


def test_an_error_of_another_kind_than_the_report_has_is_refused() -> None:
    document = document_of(LogReport(unreached=Tier2Error("no answer")))
    document["unreached"] = document_of(replace(OUTCOME, stopped_by=Corrupt("bad")))["stopped_by"]
    with pytest.raises(
        BadDocument,
        match="expected a problem document of the error Tier2Error, found one of Corrupt",
    ):
        report_of(LogReport, document)


def test_more_than_is_known_is_passed_over() -> None:
    document = {**document_of(Outcome()), "new": 1}
    assert report_of(Outcome, document) == Outcome()
