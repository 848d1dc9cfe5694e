"""Long work by kind: what it does beside live use, what it tells, what it refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from lakebed.aof.config import AofConfig
from lakebed.aof.tiers.config import SharedTierConfig
from lakebed.aof.tiers.errors import Missing
from lakebed.aof.tiers.migration import MigrationReport
from lakebed.aof.tiers.segment_tiering import RepairOutcome
from lakebed.api.job_reports import report_of
from lakebed.api.jobs import JOBS
from lakebed.base.errors import BadName, Busy, InputError, NotFound
from lakebed.base.units import KIB
from lakebed.host.store import Store
from lakebed.seglake.verification_report import Kind
from lakebed.seglake.verification_report import Report as LakeReport
from lakebed.store.damage_marks import MarkReport
from lakebed.store.log_check import LogReport
from lakebed.store.repair import RepairReport
from lakebed.store.tier_moves import Outcome
from lakebed.store.topic_repair import TopicRepair
from lakebed.store.topic_verification import TopicReport
from tests.host.local_clients import Client
from tests.seglake.damaged_lakes import flip, manifest_of

SEGMENTS = 4
RECORDS = 20  # of a kibibyte each, in a segment


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """With a log of sealed segments, a topic and an object; its Tier 2 is a folder."""
    opened = Store.open(
        tmp_path,
        config=AofConfig(segment_bytes=64 * KIB),
        tier_config=SharedTierConfig(url="tier2"),
    )
    with opened as store:
        log = store.log("orders")
        for _ in range(SEGMENTS):
            for number in range(RECORDS):
                log.append_record(b"%04d" % number * 256)
            log.seal_current_segment(timeout=60.0)
        yield store


class Steps:
    """How far work says it is; it is not wanted any more after so many steps."""

    def __init__(self, count_max: int = 1 << 30) -> None:
        self.told: list[tuple[int, int]] = []
        self._count_max = count_max

    def tell(self, done: int, total: int) -> None:
        self.told.append((done, total))

    def is_over(self) -> bool:
        return len(self.told) >= self._count_max


def run(store: Store, kind: str, steps: Steps | None = None, **arguments: object) -> Any:
    """The report, after it went over the wire."""
    steps = steps or Steps()
    document = JOBS[kind].run(store, arguments, steps.tell, steps.is_over)
    assert isinstance(document, dict)
    return report_of(JOBS[kind].report, json.loads(json.dumps(document)))


def tiers(store: Store) -> list[tuple[int, ...]]:
    return [place.tiers for place in store.log("orders").tiers.residency() if place.is_sealed]


def objects(root: Path) -> list[Path]:
    return sorted((root / "tier2").rglob("segment-*.zst"))


def test_segments_go_up_out_and_back(store: Store) -> None:
    steps = Steps()
    uploaded: Outcome = run(store, "aof-upload", steps, log="orders", segments=[1, 0])
    assert [one.after.segment_id for one in uploaded.moved] == [1, 0]
    assert uploaded.bytes == sum(one.after.compressed_bytes for one in uploaded.moved) > 0
    assert steps.told == [(1, 2), (2, 2)]
    rest: Outcome = run(store, "aof-upload", log="orders")
    assert [one.after.segment_id for one in rest.moved] == [2, 3]
    assert [(one.segment_id, one.why) for one in rest.skipped] == [
        (0, "in Tier 2 already"),
        (1, "in Tier 2 already"),
    ]
    evicted: Outcome = run(store, "aof-evict", log="orders", warm=True)
    assert [one.after.tiers for one in evicted.moved] == [(2,)] * SEGMENTS
    assert tiers(store) == [(2,)] * SEGMENTS
    hydrated: Outcome = run(store, "aof-hydrate", log="orders", segments=[3])
    assert hydrated.moved[0].after.tiers[0] == 0
    assert run(store, "aof-retry-upload", log="orders") == Outcome()


def test_an_error_of_one_segment_comes_with_its_class_and_text(store: Store) -> None:
    run(store, "aof-upload", log="orders")
    run(store, "aof-evict", log="orders", segments=[2], warm=True)
    objects(Path(store.root))[2].unlink()
    outcome: Outcome = run(store, "aof-hydrate", log="orders", segments=[2])
    (failed,) = outcome.failed
    assert failed.segment_id == 2
    assert type(failed.error) is Missing
    assert outcome.moved == []


def test_what_is_asked_for_by_number_and_cannot_be_is_an_error(store: Store) -> None:
    with pytest.raises(InputError, match="segment 0 is not in Tier 2 yet"):
        run(store, "aof-evict", log="orders", segments=[0])
    with pytest.raises(NotFound, match="77"):
        run(store, "aof-upload", log="orders", segments=[77])


def test_missing_objects_are_made_anew(store: Store) -> None:
    run(store, "aof-upload", log="orders")
    objects(Path(store.root))[1].unlink()
    outcome: Outcome = run(store, "aof-repair-tier2", log="orders")
    assert [(one.segment_id, one.outcome) for one in outcome.repaired] == [
        (1, RepairOutcome.UPLOADED)
    ]
    assert len(objects(Path(store.root))) == SEGMENTS


def test_tier2_moves_only_while_the_log_is_not_open(store: Store, tmp_path: Path) -> None:
    run(store, "aof-upload", log="orders")
    address = str(tmp_path / "elsewhere")
    with pytest.raises(Busy, match="the log is open"):
        run(store, "aof-migrate-tier2", log="orders", address=address)
    store.close()
    with Store.open(store.root) as again:
        done: MigrationReport = run(
            again, "aof-migrate-tier2", log="orders", address=address, delete=True
        )
    assert (done.before, done.after) == ("tier2", address)
    assert done.copied_count == done.deleted_count >= SEGMENTS
    assert done.missing == []


def test_a_log_is_verified_and_its_damage_saved_while_it_is_written(store: Store) -> None:
    whole: LogReport = run(store, "aof-verify", log="orders", tier2=True)
    assert (whole.records, whole.problems) == (SEGMENTS * RECORDS, [])
    (path,) = Path(store.root, "aof", "orders", "segments").glob(f"{1:020}_*")
    flip(path, 200)
    store.log("orders").append_record(b"more")
    found: LogReport = run(store, "aof-verify", log="orders")
    assert {(one.path, one.verdict.value) for one in found.problems} == {(str(path), "corrupt")}
    foreseen: RepairReport = run(store, "aof-repair", log="orders", dry_run=True)
    assert foreseen.problems == tuple(map(str, found.problems))
    assert foreseen.quarantined == ()
    before = path.read_bytes()
    repaired: RepairReport = run(store, "aof-repair", log="orders")
    assert repaired.problems == foreseen.problems
    assert {Path(one).parent.name for one in repaired.quarantined} == {"quarantine"}
    assert all(Path(one).exists() for one in repaired.quarantined)
    assert path.read_bytes() == before


def fill_topic(store: Store) -> Path:
    """The log of a sealed segment of a topic that is not open."""
    settings = {"segment_bytes": "16KiB"}
    topic = store.topics.create("clicks", partitions=1, settings=settings)
    for number in range(60):
        topic.partitions[0].append_batch([b"%04d" % number * 256]).result()
    return sorted(Path(store.root, "topics", "clicks", "0", "segments").glob("*.log"))[1]


def test_a_topic_is_verified_beside_its_writer_and_repaired_before_it(store: Store) -> None:
    path = fill_topic(store)
    whole: TopicReport = run(store, "topic-verify", topic="clicks")
    assert (whole.records, whole.problems) == (60, ())
    flip(path, 3000)
    found: TopicReport = run(store, "topic-verify", topic="clicks")
    foreseen: TopicRepair = run(store, "topic-repair", topic="clicks", dry_run=True)
    assert foreseen.problems == tuple(map(str, found.problems))
    assert foreseen.lost == found.lost
    assert len(found.lost) == 1
    with pytest.raises(Busy, match=r"clicks: the topic is in use by the program .*: stop that"):
        run(store, "topic-repair", topic="clicks")
    store.close()
    with Store.open(store.root) as again:
        repaired: TopicRepair = run(again, "topic-repair", topic="clicks")
        assert repaired.lost == found.lost
        assert all(Path(one).exists() for one in repaired.quarantined)
        [on_record] = run(again, "topic-verify", topic="clicks").problems
        assert "lakebed damage acknowledge 1" in on_record.problem
        again.damage.acknowledge(1)
        assert run(again, "topic-verify", topic="clicks").problems == ()
        assert again.topics.open("clicks").partitions[0].high_watermark() == 60


def test_objects_are_verified(store: Store) -> None:
    store.bucket("photos").put("one", b"1" * 1000)
    store.bucket("other").put("two", b"2" * 1000)
    steps = Steps()
    whole: LakeReport = run(store, "objects-verify", steps)
    assert (whole.versions, whole.problems) == (2, [])
    assert steps.told[-1] == (2000, 0)
    with Store.open(store.root, read_only=True) as reading:
        chunk = manifest_of(reading.lake, "photos", "one").chunks[0]
    flip(Path(store.root, "objects", "segments", f"{chunk.segment_id}.seg"), chunk.offset + 10)
    (problem,) = run(store, "objects-verify", bucket="photos", prefix="o").problems
    assert (problem.kind, problem.bucket, problem.key) == (Kind.OBJECT, "photos", "one")
    assert run(store, "objects-verify", bucket="other").problems == []
    with pytest.raises(InputError, match="a prefix needs a bucket"):
        run(store, "objects-verify", prefix="o")


def test_objects_that_seem_damaged_are_marked_if_they_are(store: Store) -> None:
    photos = store.bucket("photos")
    named = [["photos", key, photos.put(key, b"1" * 1000).version_id] for key in ("one", "two")]
    with Store.open(store.root, read_only=True) as reading:
        chunk = manifest_of(reading.lake, "photos", "one").chunks[0]
    flip(Path(store.root, "objects", "segments", f"{chunk.segment_id}.seg"), chunk.offset + 10)
    steps = Steps()
    found: MarkReport = run(store, "objects-mark", steps, versions=[*named, ["no", "such", "null"]])
    assert [list(one) for one in found.marked + found.whole] == named
    assert [one.bucket for one in found.gone] == ["no"]
    assert steps.told[-1] == (3, 3)
    assert [photos.head(key).state.value for key in ("one", "two")] == ["DAMAGED", "ACTIVE"]
    with pytest.raises(InputError, match="versions"):
        run(store, "objects-mark", versions=[["photos", "one"]])


def test_work_that_is_cancelled_ends_at_its_next_step_and_goes_on_the_next_time(
    store: Store,
) -> None:
    steps = Steps(2)
    assert JOBS["aof-upload"].run(store, {"log": "orders"}, steps.tell, steps.is_over) == {}
    assert steps.told == [(1, SEGMENTS), (2, SEGMENTS)]
    assert len(objects(Path(store.root))) == 2
    rest: Outcome = run(store, "aof-upload", log="orders")
    assert [one.after.segment_id for one in rest.moved] == [2, 3]


@pytest.mark.parametrize(
    ("kind", "arguments", "words"),
    [
        ("aof-upload", {}, "log"),
        ("aof-upload", {"log": 3}, "log"),
        ("aof-upload", {"log": "orders", "segments": "all"}, "segments"),
        ("aof-upload", {"log": "orders", "segments": [-1]}, "segments"),
        ("aof-upload", {"log": "orders", "segments": [1 << 32]}, "segments"),
        ("aof-upload", {"log": "orders", "segments": [True]}, "segments"),
        ("aof-upload", {"log": "orders", "warm": True}, "warm"),
        ("aof-evict", {"log": "orders", "warm": "yes"}, "warm"),
        ("aof-migrate-tier2", {"log": "orders", "address": 3}, "address"),
        ("topic-repair", {"topic": None}, "topic"),
        ("objects-verify", {"bucket": ["a"]}, "bucket"),
    ],
)
def test_arguments_that_are_none_are_refused_with_their_name(
    store: Store, kind: str, arguments: Mapping[str, Any], words: str
) -> None:
    with pytest.raises(InputError, match=rf"of the maintenance job \w+ are not valid: .*{words}"):
        run(store, kind, **arguments)


def test_nothing_is_made_by_work_on_what_is_not_there(store: Store) -> None:
    for kind in sorted(JOBS):
        if kind.startswith("aof-"):
            with pytest.raises(NotFound, match="nowhere"):
                run(store, kind, log="nowhere")
            with pytest.raises(BadName):
                run(store, kind, log="../orders")
        elif kind.startswith("topic-"):
            with pytest.raises(NotFound, match="nowhere"):
                run(store, kind, topic="nowhere")
    assert store.logs() == ["orders"]
    assert not Path(store.root, "topics").exists()


def test_work_is_started_and_waited_for_over_the_socket(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        log = store.log("orders")
        log.flush(log.append_record(b"hello"))
        client = Client(tmp_path)
        assert client.ask("GET", "/v1/work")["kinds"] == sorted(JOBS)
        asked = {"kind": "aof-verify", "arguments": {"log": "orders"}}
        work = client.ask("POST", "/v1/work", asked)["work_id"]
        state = client.ask("GET", f"/v1/work/{work}?wait_ms=60000")
        assert state["state"] == "done"
        assert report_of(LogReport, state["result"]) == LogReport(segments=1, records=1)
        client.close()
