"""Hypothesis drives a lake against a model: buckets, versions, uploads, pages, crashes.

Every answer is compared with the model's, and every error. The machine runs on a simulated disk,
so everything that was acknowledged must be there after it lost power.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from lakebed.base.simulation.databases import SimulatedDatabases
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.world import World
from lakebed.base.units import KIB, MIB
from lakebed.seglake.config import SeglakeConfig
from lakebed.seglake.lake import Lake
from lakebed.seglake.model import Condition, Content, Page, Versioning
from lakebed.seglake.multipart import NamedPart
from tests.fakes.object_model import NULL, ModelVersion, ObjectModel, md5
from tests.seglake.lake_answers import Answer, answer, described, walked

pytestmark = pytest.mark.thorough

PART_BYTES_MIN = 2
CONFIG = SeglakeConfig(
    segment_bytes=64 * KIB, part_bytes_min=PART_BYTES_MIN, reserve_bytes=0, cache_bytes=MIB
)

STATES = st.sampled_from(list(Versioning))
BUCKETS = st.sampled_from(["ant", "ant", "ant", "bee"])
KEYS = st.sampled_from(["a", "a/", "a/b", "a/b/c", "a/c", "ab", "b", "ä/"])
PREFIXES = st.sampled_from(["", "", "", "a", "a/", "ab", "b", "c"])
DELIMITERS = st.sampled_from(["", "/", "/", "b", "/b"])
MARKERS = st.sampled_from(["", "", "", "a", "a/", "a/b", "a/bb", "aa", "b", "é", "zz"])
MOSTLY = st.sampled_from([True] * 4 + [False])
PAGE_SIZES = st.integers(1, 4)
BODIES = st.builds(
    lambda byte, size: bytes([byte]) * size,
    st.integers(0, 3),
    st.sampled_from([0, 1, 2, 2, 5, 5, 40 * KIB, MIB + 1]),
)
CONTENTS = st.sampled_from(
    [Content(), Content(content_type="text/plain"), Content(metadata={"a": "ä"})]
)
CONDITIONS = st.sampled_from(["none"] * 5 + ["absent", "present", "matching", "another"])
PART_LISTS = st.lists(st.integers(1, 3), max_size=3)


class LakeMachine(RuleBasedStateMachine):
    @initialize(seed=st.integers(0, 100), ant=STATES, bee=STATES)
    def start(self, seed: int, ant: Versioning, bee: Versioning) -> None:
        self.world = World(seed)
        self.databases = SimulatedDatabases(self.world.disk)
        self.lake = self.opened()
        self.model = ObjectModel(part_bytes_min=PART_BYTES_MIN)
        self.ids: list[str] = [NULL]  # of all versions there ever were
        self.uploads: list[tuple[str, str, str]] = []  # bucket, key and id of all ever begun
        self.begin_bucket("ant", ant)
        self.begin_bucket("bee", bee)

    def begin_bucket(self, name: str, versioning: Versioning) -> None:
        """In any state, also suspended."""
        is_suspended = versioning is Versioning.SUSPENDED
        self.create_bucket(name, None if is_suspended else versioning)
        if is_suspended:
            self.set_versioning(name, versioning)

    def opened(self) -> Lake:
        return Lake(
            "/store",
            disk=self.world.disk,
            runner=self.world.runner,
            config=CONFIG,
            connector=self.databases.connect,
            random=self.world.random,
        )

    def same(self, call: Callable[[], Any], expected: Callable[[], Any]) -> Answer:
        """Ask the lake, and then the model: they must answer alike."""
        found = answer(call)
        assert found == answer(expected)
        return found

    def same_id(
        self, call: Callable[[], str | None], expected: Callable[[str], str | None]
    ) -> None:
        """As `same`, of what makes a version: the model takes over the id that the lake made."""
        found = answer(call)
        new_id = found.value or NULL
        assert found == answer(lambda: expected(new_id))
        if new_id != NULL:
            assert new_id not in self.ids
            self.ids.append(new_id)

    def condition(self, kind: str, bucket: str, key: str) -> Condition:
        if kind == "absent":
            return Condition(if_none_match="*")
        if kind == "present":
            return Condition(if_match="*")
        if kind == "another":
            return Condition(if_match=md5(b"another"))
        if kind == "matching" and bucket in self.model.buckets:
            versions = self.model.buckets[bucket].versions.get(key, [])
            return Condition(if_match=versions[0].etag or "none" if versions else "none")
        return Condition()

    # Buckets.

    @rule(name=BUCKETS, versioning=st.one_of(st.none(), STATES))
    def create_bucket(self, name: str, versioning: Versioning | None) -> None:
        self.same(
            lambda: self.lake.buckets.create(name, versioning=versioning).versioning,
            lambda: self.model.create_bucket(name, versioning),
        )

    @rule(name=BUCKETS, again=st.one_of(st.none(), STATES, STATES, STATES))
    def delete_bucket(self, name: str, again: Versioning | None) -> None:
        """Mostly there is soon one of that name again, or little else would happen."""
        self.same(lambda: self.lake.buckets.delete(name), lambda: self.model.delete_bucket(name))
        if again is not None and name not in self.model.buckets:
            self.begin_bucket(name, again)

    @rule(name=BUCKETS, versioning=STATES)
    def set_versioning(self, name: str, versioning: Versioning) -> None:
        def change() -> None:
            self.lake.buckets.set_versioning(name, versioning)

        self.same(change, lambda: self.model.set_versioning(name, versioning))

    # Objects.

    @rule(bucket=BUCKETS, key=KEYS, data=BODIES, content=CONTENTS, kind=CONDITIONS)
    def put(self, bucket: str, key: str, data: bytes, content: Content, kind: str) -> None:
        condition = self.condition(kind, bucket, key)
        self.same_id(
            lambda: (
                self.lake.objects.put(
                    bucket, key, data, content=content, condition=condition
                ).shown_version_id
            ),
            lambda new_id: self.model.put(
                bucket, key, ModelVersion(new_id, data, md5(data), content), condition
            ),
        )

    @rule(bucket=BUCKETS, keys=st.lists(KEYS, min_size=1, max_size=6), content=CONTENTS)
    def put_some(self, bucket: str, keys: list[str], content: Content) -> None:
        for number, key in enumerate(keys):
            self.put(bucket, key, b"%d" % number, content, "none")

    @rule(
        data=st.data(),
        bucket=BUCKETS,
        key=KEYS,
        content=st.one_of(st.none(), CONTENTS),
        kind=CONDITIONS,
        is_newest=st.booleans(),
    )
    def copy(
        self,
        data: st.DataObject,
        bucket: str,
        key: str,
        content: Content | None,
        kind: str,
        is_newest: bool,
    ) -> None:
        source: tuple[str, str, str | None] = self.draw_version(data)
        if is_newest:
            source = (*source[:2], None)
        condition = self.condition(kind, bucket, key)
        self.same_id(
            lambda: (
                self.lake.objects.copy(
                    source[0],
                    source[1],
                    bucket,
                    key,
                    source_version_id=source[2],
                    content=content,
                    condition=condition,
                ).shown_version_id
            ),
            lambda new_id: self.model.copy(
                source, bucket, key, new_id=new_id, content=content, condition=condition
            ),
        )

    @rule(bucket=BUCKETS, key=KEYS, kind=CONDITIONS)
    def delete(self, bucket: str, key: str, kind: str) -> None:
        condition = self.condition(kind, bucket, key)
        self.same_id(
            lambda: self.lake.objects.delete(bucket, key, condition=condition).version_id,
            lambda new_id: self.model.delete(bucket, key, new_id=new_id, condition=condition),
        )

    @rule(data=st.data())
    def delete_version(self, data: st.DataObject) -> None:
        bucket, key, version_id = self.draw_version(data)
        self.same(
            lambda: self.lake.objects.delete(bucket, key, version_id=version_id).is_marker,
            lambda: self.model.delete_version(bucket, key, version_id),
        )

    @rule(bucket=BUCKETS, key=KEYS)
    def get(self, bucket: str, key: str) -> None:
        self.look_at(bucket, key, None)

    @rule(data=st.data())
    def get_version(self, data: st.DataObject) -> None:
        self.look_at(*self.draw_version(data))

    def look_at(self, bucket: str, key: str, version_id: str | None) -> None:
        def read() -> ModelVersion:
            reader = self.lake.objects.get(bucket, key, version_id=version_id)
            return described(reader.info)._replace(data=reader.read())

        self.same(read, lambda: self.model.find(bucket, key, version_id))
        self.same(
            lambda: described(self.lake.objects.head(bucket, key, version_id=version_id)),
            lambda: self.model.find(bucket, key, version_id)._replace(data=None),
        )

    def draw_id(self, data: st.DataObject) -> str | None:
        return data.draw(st.sampled_from([None, None, NULL, *self.ids[-4:]]))

    def draw_version(self, data: st.DataObject) -> tuple[str, str, str]:
        """Mostly one that is there, else anything."""
        there = [
            (name, key, version.version_id)
            for name, bucket in self.model.buckets.items()
            for key, versions in bucket.versions.items()
            for version in versions
        ]
        if data.draw(MOSTLY) and there:
            return data.draw(st.sampled_from(there))
        return data.draw(BUCKETS), data.draw(KEYS), data.draw(st.sampled_from(self.ids))

    # Uploads.

    @rule(bucket=BUCKETS, key=KEYS, content=CONTENTS)
    def begin_upload(self, bucket: str, key: str, content: Content) -> None:
        self.create_upload(bucket, key, content)

    def create_upload(self, bucket: str, key: str, content: Content) -> str:
        found = answer(lambda: self.lake.uploads.create(bucket, key, content=content).upload_id)
        new_id = found.value or ""
        expected = answer(
            lambda: self.model.create_upload(bucket, key, new_id=new_id, content=content)
        )
        assert found.error is expected.error
        if new_id:
            self.uploads.append((bucket, key, new_id))
        return new_id

    @precondition(lambda self: self.uploads)
    @rule(data=st.data(), number=st.integers(1, 3), body=BODIES)
    def put_part(self, data: st.DataObject, number: int, body: bytes) -> None:
        self.put_one_part(self.draw_upload(data), number, body)

    def put_one_part(self, place: tuple[str, str, str], number: int, body: bytes) -> str:
        etag: str = self.same(
            lambda: self.lake.uploads.put_part(*place, number, body).etag,
            lambda: self.model.put_part(*place, number, body),
        ).value
        return etag

    @precondition(lambda self: self.uploads)
    @rule(data=st.data(), number=st.integers(1, 3))
    def copy_part(self, data: st.DataObject, number: int) -> None:
        place = self.draw_upload(data)
        bucket, key, version_id = self.draw_version(data)

        def expected() -> str:
            source = self.model.find(bucket, key, version_id)
            return self.model.put_part(*place, number, source.data or b"")

        self.same(
            lambda: (
                self.lake.uploads.copy_part(
                    bucket, key, *place, number, source_version_id=version_id
                ).etag
            ),
            expected,
        )

    @precondition(lambda self: self.uploads)
    @rule(
        data=st.data(),
        numbers=st.one_of(st.none(), st.none(), PART_LISTS),
        has_etags=st.sampled_from([True, True, True, False]),
        kind=CONDITIONS,
    )
    def complete(
        self, data: st.DataObject, numbers: list[int] | None, has_etags: bool, kind: str
    ) -> None:
        """All of the parts there are, or some that may be there or not."""
        bucket, key, upload_id = self.draw_upload(data)
        there = self.model.buckets.get(bucket)
        upload = there.uploads.get(upload_id) if there else None
        parts = upload.parts if upload else {}
        chosen = sorted(parts) if numbers is None else numbers
        named = [(one, md5(parts.get(one, b"?") if has_etags else b"?")) for one in chosen]
        self.complete_one((bucket, key, upload_id), named, kind)

    def complete_one(
        self, place: tuple[str, str, str], named: list[tuple[int, str]], kind: str
    ) -> None:
        condition = self.condition(kind, *place[:2])
        self.same_id(
            lambda: (
                self.lake.uploads.complete(
                    *place, [NamedPart(*one) for one in named], condition=condition
                ).shown_version_id
            ),
            lambda new_id: self.model.complete(*place, named, new_id=new_id, condition=condition),
        )

    @rule(data=st.data(), bucket=BUCKETS, key=KEYS, content=CONTENTS, kind=CONDITIONS)
    def upload_all(
        self, data: st.DataObject, bucket: str, key: str, content: Content, kind: str
    ) -> None:
        """From the beginning to the end; a part may be too small."""
        upload_id = self.create_upload(bucket, key, content)
        bodies = data.draw(st.lists(BODIES, min_size=1, max_size=3))
        named = []
        for number, body in enumerate(bodies if upload_id else [], start=1):
            named.append((number, self.put_one_part((bucket, key, upload_id), number, body)))
        self.complete_one((bucket, key, upload_id), named, kind)

    @precondition(lambda self: self.uploads)
    @rule(data=st.data())
    def abort(self, data: st.DataObject) -> None:
        place = self.draw_upload(data)
        self.same(lambda: self.lake.uploads.abort(*place), lambda: self.model.abort(*place))

    @precondition(lambda self: self.uploads)
    @rule(data=st.data(), page_size=PAGE_SIZES)
    def list_parts(self, data: st.DataObject, page_size: int) -> None:
        place = self.draw_upload(data)

        def pages() -> list[tuple[int, str]]:
            found: list[tuple[int, str]] = []
            after: int | None = 0
            while after is not None:
                page = self.lake.uploads.parts(*place, after=after, max_parts=page_size)
                found += [(part.number, part.etag) for part in page.parts]
                after = page.next_number
            return found

        def expected() -> list[tuple[int, str]]:
            parts = self.model.upload(*place).parts
            return [(number, md5(parts[number])) for number in sorted(parts)]

        self.same(pages, expected)

    def draw_upload(self, data: st.DataObject) -> tuple[str, str, str]:
        """Bucket, key and id of one, mostly of one that is under way."""
        there = [
            place
            for place in self.uploads
            if place[0] in self.model.buckets and place[2] in self.model.buckets[place[0]].uploads
        ]
        if data.draw(MOSTLY) and there:
            return data.draw(st.sampled_from(there))
        return data.draw(st.sampled_from(self.uploads))

    # Listing.

    @rule(bucket=BUCKETS, prefix=PREFIXES, delimiter=DELIMITERS, after=MARKERS, size=PAGE_SIZES)
    def list_objects(self, bucket: str, prefix: str, delimiter: str, after: str, size: int) -> None:
        def page(marker: str, _marker_id: str | None) -> Page[Any]:
            return self.lake.objects.list(
                bucket, prefix=prefix, delimiter=delimiter, after=marker, max_keys=size
            )

        self.same(
            lambda: walked(page, size=size, after=after, after_id=None),
            lambda: self.model.entries(bucket, prefix=prefix, delimiter=delimiter, after=after),
        )

    @rule(data=st.data(), prefix=PREFIXES, delimiter=DELIMITERS, after=MARKERS, size=PAGE_SIZES)
    def list_versions(
        self, data: st.DataObject, prefix: str, delimiter: str, after: str, size: int
    ) -> None:
        bucket, after_id = data.draw(BUCKETS), self.draw_id(data) if after else None

        def page(marker: str, marker_id: str | None) -> Page[Any]:
            return self.lake.objects.list_versions(
                bucket,
                prefix=prefix,
                delimiter=delimiter,
                key_marker=marker,
                version_id_marker=marker_id,
                max_keys=size,
            )

        self.same(
            lambda: walked(page, size=size, after=after, after_id=after_id),
            lambda: self.model.version_entries(
                bucket, prefix=prefix, delimiter=delimiter, after=after, after_id=after_id
            ),
        )

    @rule(bucket=BUCKETS, prefix=PREFIXES, delimiter=DELIMITERS, after=MARKERS, size=PAGE_SIZES)
    def list_uploads(self, bucket: str, prefix: str, delimiter: str, after: str, size: int) -> None:
        def page(marker: str, marker_id: str | None) -> Page[Any]:
            return self.lake.uploads.list(
                bucket,
                prefix=prefix,
                delimiter=delimiter,
                key_marker=marker,
                upload_id_marker=marker_id,
                max_uploads=size,
            )

        self.same(
            lambda: walked(page, size=size, after=after, after_id=None),
            lambda: self.model.upload_entries(
                bucket, prefix=prefix, delimiter=delimiter, after=after, after_id=None
            ),
        )

    @rule(data=st.data(), keys=st.lists(KEYS, min_size=1, max_size=4))
    def do_a_bit_of_everything(self, data: st.DataObject, keys: list[str]) -> None:
        """So that a short run meets all of it: Hypothesis leaves out some rules each time."""
        bucket, key = data.draw(BUCKETS), data.draw(KEYS)
        self.put_some(bucket, keys, data.draw(CONTENTS))
        contents = data.draw(st.one_of(st.none(), CONTENTS))
        self.copy(data, bucket, key, contents, data.draw(CONDITIONS), data.draw(MOSTLY))
        self.delete(bucket, key, data.draw(CONDITIONS))
        self.upload_all(data, bucket, key, data.draw(CONTENTS), data.draw(CONDITIONS))
        self.delete_version(data)
        where = (data.draw(PREFIXES), data.draw(DELIMITERS), data.draw(MARKERS))
        self.list_objects(bucket, *where, data.draw(PAGE_SIZES))
        self.list_versions(data, *where, data.draw(PAGE_SIZES))

    # Life and death.

    @rule(duration_ms=st.sampled_from([1, 300, 5000, 700_000]), skew_ms=st.integers(-9999, 9999))
    def let_time_pass(self, duration_ms: int, skew_ms: int) -> None:
        """Upkeep writes manifests and seals segments; the wall clock may go back."""
        self.world.clock.skew(skew_ms * 1_000_000)
        self.world.runner.advance(duration_ms * 1_000_000)

    @rule()
    def reopen(self) -> None:
        self.lake.close()
        self.lake = self.opened()

    @rule(crash=st.sampled_from(list(Crash)), survivors=st.integers(0, 3))
    def crash(self, crash: Crash, survivors: int) -> None:
        self.world.restart(crash, survivors=survivors)
        self.lake = self.opened()
        assert self.lake.damage == []

    def teardown(self) -> None:
        if not hasattr(self, "model"):
            return
        try:
            self.reopen()
            self.look_at_everything()
            self.lake.close()
        finally:
            self.databases.close()

    def look_at_everything(self) -> None:
        found = {one.name: one.versioning for one in self.lake.buckets.list()}
        assert found == {name: one.versioning for name, one in self.model.buckets.items()}
        for name, bucket in self.model.buckets.items():
            self.list_objects(name, "", "", "", 1000)
            self.list_uploads(name, "", "", "", 1000)
            for key, versions in bucket.versions.items():
                self.look_at(name, key, None)
                for version in versions:
                    self.look_at(name, key, version.version_id)


TestLake = LakeMachine.TestCase
TestLake.settings = settings(max_examples=45, stateful_step_count=40)


@pytest.mark.slow
def test_a_lake_for_long() -> None:
    run_state_machine_as_test(
        LakeMachine, settings=settings(max_examples=250, stateful_step_count=60)
    )
