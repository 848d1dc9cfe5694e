"""Lakes on a simulated machine, SQLite included, and what must hold of them after a crash.

`observe` is everything that a caller can see; `check_whole` is what no caller sees.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from random import Random
from typing import Any, NamedTuple

import apsw
import pytest

from lakebed.base.clock import NS_PER_S
from lakebed.base.simulation.databases import SimulatedDatabases
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.sweep import sweep
from lakebed.base.simulation.world import World
from lakebed.base.units import KIB
from lakebed.seglake import body, objects
from lakebed.seglake.chunk_reader import ChunkReader
from lakebed.seglake.config import SeglakeConfig
from lakebed.seglake.errors import NoSuchKey
from lakebed.seglake.lake import Lake
from lakebed.seglake.manifest import decode
from lakebed.seglake.manifest_files import WRITTEN
from lakebed.seglake.meta.database import Database
from lakebed.seglake.meta.reader import Reader
from lakebed.seglake.model import Content, ObjectInfo, State
from lakebed.seglake.paths import LakePaths
from lakebed.seglake.segment_file import read_sealed
from lakebed.seglake.segment_id import segment_id_of, segment_path
from lakebed.seglake.upload_rows import all_parts, part_manifest
from lakebed.seglake.versions import row_of

ROOT = "/store"
PATHS = LakePaths(ROOT)
PLAIN, VERSIONED, SUSPENDED = "plain", "versioned", "suspended"  # buckets
CONTENT = Content(content_type="text/plain", metadata={"colour": "blue"})

SMALL_CHUNK_BYTES = 16 * KIB
SMALL_INLINE_BYTES = 4 * KIB


def use_small_chunks(patch: pytest.MonkeyPatch) -> None:
    """Bodies of some KiB take the way of large ones: a crash at each of their steps is cheap."""
    patch.setattr(body, "CHUNK_BYTES", SMALL_CHUNK_BYTES)
    for module in (body, objects):
        patch.setattr(module, "INLINE_BYTES_MAX", SMALL_INLINE_BYTES)


def content(size: int, seed: object) -> bytes:
    return Random(f"{size} {seed}").randbytes(size)


class Machine:
    """A world, SQLite on its disk, and at most one lake. `name` decides on the ids it gives."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.databases = SimulatedDatabases(world.disk)
        self._random = Random(f"{name} {world.seed}")
        self._lake: Lake | None = None

    @property
    def lake(self) -> Lake:
        assert self._lake is not None, "not opened"
        return self._lake

    def open(self, **settings: Any) -> Lake:
        """With small segments, which are soon sealed, and no cache: what is on disk counts."""
        usual = {
            "segment_bytes": 64 * KIB,
            "segment_idle_ms": 1000,
            "part_bytes_min": 1,
            "reserve_bytes": 0,
            "cache_bytes": 0,
        }
        self._lake = Lake(
            ROOT,
            disk=self.world.disk,
            runner=self.world.runner,
            config=SeglakeConfig(**(usual | settings)),
            connector=self.databases.connect,
            random=self._random,
        )
        return self._lake

    def pass_time(self, seconds: float = 3) -> None:
        """Enough for the upkeep to seal what is idle and to write what is due."""
        self.world.runner.advance(int(seconds * NS_PER_S))

    @contextlib.contextmanager
    def reading(self) -> Iterator[Reader]:
        """The metadata, beside the lake."""
        database = Database(
            PATHS.database,
            disk=self.world.disk,
            runner=self.world.runner,
            readers_max=1,
            connector=self.databases.connect,
            read_only=True,
        )
        with contextlib.closing(database), database.snapshot() as reader:
            yield reader

    def sql(self, statement: str, *values: Any) -> list[Any]:
        """Whatever it does to the metadata."""
        connection = self.databases.connect(PATHS.database)
        try:
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            return connection.execute(statement, values).fetchall()
        finally:
            connection.close()

    def close(self) -> None:
        self.databases.close()

    def __enter__(self) -> Machine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def adopt(world: World, start: World) -> None:
    """Go on from the disk and the time of `start`; faults that are planned stay."""
    faults = world.disk.faults
    world.disk = start.disk.copy(Random(f"disk {world.seed}"), scheduler=world.runner)
    world.disk.faults = faults
    world.disk.trace = world.runner.trace
    world.clock.advance(start.clock.monotonic_ns() - world.clock.monotonic_ns())


# What a caller sees.


class Version(NamedTuple):
    """`data` is None of a delete marker."""

    key: str
    info: ObjectInfo | None
    version_id: str
    is_latest: bool
    data: bytes | None


class Part(NamedTuple):
    upload_id: str
    key: str
    number: int
    etag: str
    size: int
    data: bytes


class Seen(NamedTuple):
    """A lake, as it looks from outside."""

    buckets: list[tuple[str, str]]
    objects: list[Version]
    versions: list[Version]
    uploads: list[tuple[str, str]]
    parts: list[Part]

    def data_of(self, bucket: str, key: str) -> bytes | None:
        for one in self.objects:
            if one.info is not None and (one.info.bucket, one.key) == (bucket, key):
                return one.data
        return None


def observe(machine: Machine) -> Seen:
    """Everything, read in full; listings and heads must agree."""
    lake = machine.lake
    seen = Seen([], [], [], [], [])
    for bucket in lake.buckets.list():
        seen.buckets.append((bucket.name, bucket.versioning.value))
        listed = [
            _object(lake, bucket.name, row.key) for row in lake.objects.list(bucket.name).items
        ]
        for one, row in zip(listed, lake.objects.list(bucket.name).items, strict=True):
            assert one.info is not None
            assert (one.info.etag, one.info.size) == (row.etag, row.size)
            assert (one.version_id, one.info.modified_ms) == (row.version_id, row.modified_ms)
        seen.objects.extend(listed)
        seen.versions.extend(_versions(lake, bucket.name, {one.key for one in listed}))
        for upload in lake.uploads.list(bucket.name).items:
            seen.uploads.append((upload.upload_id, upload.key))
            seen.parts.extend(_parts(machine, bucket.name, upload.key, upload.upload_id))
    return seen


def _object(lake: Lake, bucket: str, key: str, version_id: str | None = None) -> Version:
    reader = lake.objects.get(bucket, key, version_id=version_id)
    info = lake.objects.head(bucket, key, version_id=version_id)
    assert reader.info == info
    data = reader.read()
    assert len(data) == info.size
    if not info.part_sizes:
        assert hashlib.md5(data, usedforsecurity=False).hexdigest() == info.etag
    return Version(key, info, info.version_id, info.is_latest, data)


def _versions(lake: Lake, bucket: str, visible: set[str]) -> Iterator[Version]:
    for row, is_latest in lake.objects.list_versions(bucket).items:
        if is_latest:
            assert (row.state is not State.DELETED) == (row.key in visible)
        if row.state is State.DELETED:
            if is_latest:
                with pytest.raises(NoSuchKey):
                    lake.objects.head(bucket, row.key)
            yield Version(row.key, None, row.version_id, is_latest, None)
            continue
        version_id = "null" if row.is_null else row.version_id
        found = _object(lake, bucket, row.key, version_id)
        assert (found.version_id, found.is_latest) == (row.version_id, is_latest)
        yield found


def _parts(machine: Machine, bucket: str, key: str, upload_id: str) -> Iterator[Part]:
    """As they are told, with the bytes they stand for."""
    told = machine.lake.uploads.parts(bucket, key, upload_id).parts
    chunks = chunk_reader(machine)
    with machine.reading() as reader:
        rows = list(all_parts(reader, upload_id))
    for part, row in zip(told, rows, strict=True):
        data = b"".join(chunks.read(chunk) for chunk in part_manifest(row).chunks)
        assert len(data) == part.size
        assert hashlib.md5(data, usedforsecurity=False).hexdigest() == part.etag
        yield Part(upload_id, key, part.number, part.etag, part.size, data)


def chunk_reader(machine: Machine) -> ChunkReader:
    world = machine.world
    config = SeglakeConfig(cache_bytes=0)
    return ChunkReader(PATHS.segments, disk=world.disk, runner=world.runner, config=config)


# What no caller sees.

ORPHANS = """
SELECT upload_id FROM multipart_parts WHERE upload_id NOT IN (
    SELECT upload_id FROM multipart_uploads
)
UNION ALL SELECT version_id FROM objects_current WHERE manifest NOT IN (SELECT id FROM versions)
UNION ALL SELECT version_id FROM versions WHERE id NOT IN (SELECT id FROM manifests)"""


def check_opened(machine: Machine) -> None:
    """Right after an opening: nothing is damaged, all segments are sealed, all rows are sound."""
    assert machine.lake.damage == []
    disk = machine.world.disk
    with machine.reading() as reader:
        assert reader.problems() == []
        assert reader.connection.execute(ORPHANS).fetchall() == []
        segments = {row.segment_id: row for row in reader.segments()}
        manifests = reader.manifests(limit=10_000)
        stored = {version_id: reader.manifest_file(version_id) for version_id, _ in manifests}
        versions = [
            row
            for bucket in reader.buckets()
            for row in reader.versions_from(bucket.name, start=b"", end=b"\xff")
        ]
    assert sorted(segments) == sorted(filter(None, map(segment_id_of, disk.names(PATHS.segments))))
    for segment_id, row in segments.items():
        with disk.open(segment_path(PATHS.segments, segment_id)) as file:
            sealed = read_sealed(file)
            assert (row.state, row.size) == ("SEALED", file.size())
        assert row.footer_checksum == sealed.checksum
    decoded = {version_id: decode(data, path=version_id) for version_id, data in manifests}
    assert {row.version_id: row for row in versions} == {
        version_id: row_of(manifest) for version_id, manifest in decoded.items()
    }
    for version_id, data in manifests:
        row_of_file = stored[version_id]
        assert row_of_file is not None
        if row_of_file.file_state == WRITTEN:
            assert _manifest_file(machine, version_id) == data


def check_kept_up(machine: Machine) -> None:
    """After upkeep or a close: a manifest file for every version, and none for any other."""
    disk = machine.world.disk
    with machine.reading() as reader:
        assert reader.pending_manifests(10) == []
        wanted = dict(reader.manifests(limit=10_000))
    found = [
        name
        for folder in disk.names(PATHS.manifests)
        for name in disk.names(f"{PATHS.manifests}/{folder}")
    ]
    assert sorted(found) == sorted(wanted)
    for version_id, data in wanted.items():
        assert _manifest_file(machine, version_id) == data


def _manifest_file(machine: Machine, version_id: str) -> bytes:
    path = f"{PATHS.manifests}/{version_id[:2]}/{version_id}"
    with machine.world.disk.open(path) as file:
        return file.pread(0, file.size())


# Crashes.

Act = Callable[[Machine], object]


class Play:
    """Acts in a row, and a close; and what is seen after each of them if nothing crashes."""

    def __init__(self, *, before: Sequence[Act], acts: Sequence[Act]) -> None:
        """`before` happens undisturbed, and its lake is closed."""
        self.acts = acts
        self._before = before
        self._starts: dict[int, World] = {}
        self._seen: dict[int, list[Seen]] = {}

    def start(self, seed: int) -> World:
        """The disk that the acts begin with."""
        if seed not in self._starts:
            world = World(seed)
            with Machine(world, "before") as machine, machine.open():
                for act in self._before:
                    act(machine)
            self._starts[seed] = world
        return self._starts[seed]

    def seen(self, seed: int) -> list[Seen]:
        """Before the first act, and after each."""
        if seed not in self._seen:
            world = World(seed)
            adopt(world, self.start(seed))
            with Machine(world, "acts") as machine, machine.open():
                seen = [observe(machine)]
                for act in self.acts:
                    act(machine)
                    seen.append(observe(machine))
            self._seen[seed] = seen
        return self._seen[seed]

    def sweep(self, *, seeds: Iterable[int], survivors: Iterable[int], cases_max: int) -> int:
        return sweep(
            lambda: Performance(self), seeds=seeds, survivors=survivors, cases_max=cases_max
        )


class Performance:
    """After a crash the lake is as it was before the act that was under way, or after it."""

    def __init__(self, play: Play) -> None:
        self._play = play
        self._done = 0

    def run(self, world: World) -> None:
        adopt(world, self._play.start(world.seed))
        with Machine(world, "acts") as machine, machine.open():
            for act in self._play.acts:
                act(machine)
                self._done += 1

    def allowed(self, seed: int) -> list[Seen]:
        return self._play.seen(seed)[self._done :][:2]

    def check(self, world: World) -> None:
        with Machine(world, "after the crash") as machine:
            machine.open()
            check_opened(machine)
            assert observe(machine) in self.allowed(world.seed), "neither before nor after the act"
            check_it_goes_on(machine)


def check_it_goes_on(machine: Machine) -> None:
    """What was seen outlives a power cut, and so does what is written after it."""
    seen = observe(machine)
    machine.world.restart(Crash.POWER)
    lake = machine.open()
    check_opened(machine)
    assert observe(machine) == seen, "it was seen, and is gone"
    lake.buckets.create("afterwards")
    data = content(20 * KIB, "afterwards")
    lake.objects.put("afterwards", "small", b"small", content=CONTENT)
    lake.objects.put("afterwards", "large", data)
    machine.world.restart(Crash.POWER)
    lake = machine.open()
    assert lake.objects.get("afterwards", "small").read() == b"small"
    assert lake.objects.get("afterwards", "large").read() == data
    lake.close()
    check_kept_up(machine)
