"""Stores of other versions: what is newer is refused untouched, what is older is opened."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from lakebed.aof import format as aof
from lakebed.aof.config import AofConfig, FlushConfig
from lakebed.aof.manifest import format as manifest
from lakebed.base import damage_ledger
from lakebed.base.damage_ledger import Ledger, encode_ledger
from lakebed.base.errors import UnknownVersion
from lakebed.base.layout import Layout
from lakebed.keratin import format as keratin
from lakebed.keratin.config import TopicConfig
from lakebed.seglake import format as seglake
from lakebed.seglake.manifest import Manifest, decode
from lakebed.seglake.meta.schema import APPLICATION_ID, MIGRATIONS
from lakebed.store import version
from lakebed.store.store import Store
from lakebed.stroma import format as stroma
from lakebed.stroma.paths import GroupPaths
from lakebed.version import VERSION
from tests.aof.test_golden import NAME, PAYLOADS
from tests.aof.tiers.tiered_logs import contents
from tests.seglake.manifest_samples import of_version_1, of_version_1_unnamed, of_version_2
from tests.store.backup.backups import everything, files_below, write_everything
from tests.store.batch_commits import batch
from tests.store.whole_stores import OBJECTS, open_store
from tests.stroma.groups import NAME as GROUP
from tests.stroma.samples import SNAPSHOT

pytestmark = pytest.mark.thorough

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a file of every kind; to be copied, not changed."""
    root = tmp_path_factory.mktemp("written") / "root"
    write_everything(root)
    with open_store(root) as store:
        store.topic("events").commit_batches("query", 1, {0: [batch(b"one")]})
    # Kinds that are there only while something is under way.
    shutil.copy(GOLDEN / "keratin/v1/commit.bin", root / "topics/events/1/commit.bin")
    (root / damage_ledger.FILE_NAME).write_bytes(encode_ledger(Ledger()))
    return root


@pytest.fixture
def root(written: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(written, tmp_path / "root"))


def bump(layout: Layout[Any]) -> Callable[[Path], None]:
    """Raise the version of a binary file by one."""

    def change(path: Path) -> None:
        data = bytearray(path.read_bytes())
        header = layout.unpack(data)
        layout.pack_into(data, 0, header._replace(version=header.version + 1))
        path.write_bytes(data)

    return change


def bump_document(path: Path) -> None:
    document = json.loads(path.read_bytes())
    document["version"] += 1
    path.write_text(json.dumps(document))


def bump_metadata(path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.execute(
        "INSERT INTO schema_migrations (version, applied_ms) VALUES (?, 0)", (len(MIGRATIONS) + 1,)
    )
    connection.close()


FILES: dict[str, Callable[[Path], None]] = {
    "store.json": bump_document,
    "aof/orders/log.json": bump_document,
    "aof/orders/durable_end": bump(aof.DURABLE_END),
    "aof/orders/segments/current.sealed": bump(aof.SEALED_POINTER),
    "aof/orders/segments/*.seg": bump(aof.SEGMENT_HEADER),
    "aof/orders/manifest/*/*.mlog": bump(manifest.CHUNK_HEADER),
    "aof/orders/manifest/*/snapshot_*.bin": bump(manifest.SNAPSHOT_HEADER),
    "topics/events/topic.json": bump_document,
    "topics/events/0/commits.json": bump_document,
    "topics/events/0/manifest.bin": bump(keratin.MANIFEST_HEADER),
    "topics/events/0/durable_end": bump(keratin.DURABLE_END),
    "topics/events/1/commit.bin": bump(keratin.COMMIT_HEADER),
    "topics/events/0/segments/*.log": bump(keratin.LOG_HEADER),
    "topics/events/0/segments/*.idx": bump(keratin.INDEX_HEADER),
    "topics/events/0/segments/*.tidx": bump(keratin.INDEX_HEADER),
    "topics/events/0/segments/*.producers": bump(keratin.PRODUCERS_HEADER),
    "groups/*.snap": bump(stroma.SNAPSHOT_HEADER),
    "groups/*.delta": bump(stroma.DELTA_HEADER),
    "objects/segments/*.seg": bump(seglake.SEGMENT_HEADER),
    "secret.key": bump(seglake.SECRET_KEY_FILE),
    "damage.json": bump_document,
    "meta.db": bump_metadata,
}


@pytest.mark.parametrize("pattern", FILES)
def test_a_newer_file_is_refused_by_name_and_nothing_is_changed(root: Path, pattern: str) -> None:
    found = sorted(root.glob(pattern))
    if not found and pattern == "groups/*.snap":
        shutil.copy(GOLDEN / "stroma/v1/group.snap.bin", root / "groups" / "a-0_b.snap")
        found = sorted(root.glob(pattern))
    path = found[-1]
    noted = json.loads((root / "store.json").read_text())
    (root / "store.json").write_text(json.dumps({**noted, "program": "another"}))
    FILES[pattern](path)
    before = files_below(root)
    with pytest.raises(UnknownVersion) as refused:
        Store.open(root)
    assert str(refused.value).startswith(f"{path}: ")
    assert "\n" not in str(refused.value)
    assert "newer version" in str(refused.value)
    assert files_below(root) == before


def test_one_release_looks_once_and_another_looks_again(root: Path) -> None:
    with open_store(root):
        pass
    assert json.loads((root / "store.json").read_text())["program"] == VERSION
    bump_document(root / "aof/orders/log.json")
    with open_store(root) as store:  # it is not looked through again, but refused when it is met
        with pytest.raises(UnknownVersion):
            store.log("orders")
        assert len(store.topic("events").partitions) == 2
    noted = json.loads((root / "store.json").read_text())
    (root / "store.json").write_text(json.dumps({**noted, "program": "0.0.1"}))
    with pytest.raises(UnknownVersion, match=r"log\.json"):
        open_store(root)


def test_a_store_from_before_releases_were_noted_is_opened_and_noted(root: Path) -> None:
    golden = (GOLDEN / "store/v1/store.json").read_bytes()
    (root / "store.json").write_bytes(golden)
    (root / "topics/events/1/commit.bin").unlink()
    with open_store(root) as store:
        assert store.version == version.StoreVersion(1, 1_700_000_000_000, program=VERSION)
    assert len(everything(root)["logs"]) == 2  # type: ignore[arg-type]


# What older programs wrote, as they wrote it.


@pytest.mark.parametrize("name", ["sealed.seg", "unsealed.seg", "interchange.seg"])
def test_a_segment_of_version_2_is_opened_and_its_log_goes_on(tmp_path: Path, name: str) -> None:
    """As the specification has it, without anything beside it."""
    segments = tmp_path / "aof" / "orders" / "segments"
    segments.mkdir(parents=True)
    shutil.copy(GOLDEN / "aof2/v2" / name, segments / str(NAME))
    with Store.open(tmp_path, config=AofConfig(flush=FlushConfig(reserve_bytes=0))) as store:
        log = store.log("orders")
        assert contents(log) == PAYLOADS
        log.append_record_with_timeout(b"more", 10)
        log.flush()
        assert contents(log) == [*PAYLOADS, b"more"]


def test_a_partition_of_version_1_is_opened_and_goes_on(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        store.topic("events")
    partition = tmp_path / "topics" / "events" / "0"
    shutil.rmtree(partition)
    shutil.copytree(GOLDEN / "keratin/partition_v1", partition)
    with Store.open(tmp_path, topic_config=TopicConfig()) as store:
        opened = store.topic("events").partition(0)
        before = [message.offset for message in opened.read()]
        assert (before[0], len(before)) == (101, 8)
        assert opened.append_batch([b"more"]).result()[0] == before[-1] + 1


def test_metadata_of_every_older_version_are_brought_up_to_date(tmp_path: Path) -> None:
    for count in range(1, len(MIGRATIONS) + 1):
        root = tmp_path / f"{count}"
        root.mkdir()
        connection = apsw.Connection(str(root / "meta.db"))
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(
            "CREATE TABLE schema_migrations (version INTEGER PRIMARY KEY, applied_ms INTEGER"
            " NOT NULL) STRICT"
        )
        for number, statements in enumerate(MIGRATIONS[:count], start=1):
            connection.execute(statements)
            connection.execute("INSERT INTO schema_migrations VALUES (?, 0)", (number,))
        connection.close()
        with Store.open(root, object_config=OBJECTS) as store:
            store.bucket("photos").put("city", b"bytes")
            assert b"".join(store.bucket("photos").get("city")) == b"bytes"
        connection = apsw.Connection(str(root / "meta.db"))
        assert connection.execute("SELECT max(version) FROM schema_migrations").get == len(
            MIGRATIONS
        )
        connection.close()


def test_a_group_of_version_1_is_opened(tmp_path: Path) -> None:
    """Its snapshot, and the delta of that; its messages are there."""
    with Store.open(tmp_path) as store:
        topic = store.topic(GROUP.topic)
        topic.append_batch([b"%d" % number for number in range(200)]).result()
    paths = GroupPaths(tmp_path, GROUP)
    Path(paths.folder).mkdir()
    shutil.copy(GOLDEN / "stroma/v1/group.snap.bin", paths.snapshot)
    with Store.open(tmp_path) as store:
        group = store.topic(GROUP.topic).group(GROUP.group)
        described = group.describe()[0]
        assert described.acked_until == SNAPSHOT.acked_until
        group.ack_all(group.lease())
        assert group.describe()[0].acked_until >= SNAPSHOT.acked_until


@pytest.mark.parametrize("encode", [of_version_1, of_version_1_unnamed, of_version_2])
def test_an_object_with_an_older_manifest_is_read(
    tmp_path: Path, encode: Callable[[Manifest], bytes]
) -> None:
    with Store.open(tmp_path, object_config=OBJECTS) as store:
        store.bucket("photos").put("city", b"bytes" * 1000)
    connection = apsw.Connection(str(tmp_path / "meta.db"))
    [(data,)] = connection.execute("SELECT data FROM manifests")
    connection.execute("UPDATE manifests SET data = ?", (encode(decode(data, path="")),))
    connection.close()
    with Store.open(tmp_path, object_config=OBJECTS) as store:
        assert b"".join(store.bucket("photos").get("city")) == b"bytes" * 1000
        store.bucket("photos").put("city", b"new")
        assert b"".join(store.bucket("photos").get("city")) == b"new"


@pytest.mark.parametrize("name", ["open.seg", "sealed.seg", "many.seg"])
def test_an_object_segment_of_version_1_is_taken_over(tmp_path: Path, name: str) -> None:
    with Store.open(tmp_path, object_config=OBJECTS) as store:
        store.bucket("photos")
    path = tmp_path / "objects" / "segments" / "018bcfe56800aabbccddeeff.seg"
    shutil.copy(GOLDEN / "seglake/v1" / name, path)
    with Store.open(tmp_path, object_config=OBJECTS) as store:
        assert store.lake.damage == []
    assert (
        path.read_bytes() == (GOLDEN / "seglake/v1" / name.replace("open", "sealed")).read_bytes()
    )
