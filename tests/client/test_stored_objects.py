"""Versions and parts over the wire, as the engine tells them; and answers that cannot be."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

import pytest

from lakebed.base.runner import ThreadRunner
from lakebed.client.address import Address
from lakebed.client.caller import Caller
from lakebed.client.errors import BadAnswer
from lakebed.client.stored_objects import RemoteStoredObjects
from lakebed.seglake.key_sample import sample_keys
from lakebed.seglake.meta.reader import KEYS_END
from lakebed.seglake.model import Versioning
from lakebed.seglake.stored_pages import KeyRange, parts_after, versions_after
from lakebed.seglake.stored_rows import PartPage, PartPlace, StoredVersion, StoredVersions
from tests.client.scripted import document, says, scripted
from tests.http_api.live_api import HOST, LiveApi

EVERYTHING = KeyRange("photos", b"", KEYS_END)


@contextmanager
def calling(port: int) -> Iterator[Caller]:
    with ThreadRunner() as runner:
        caller = Caller(Address(host=HOST, port=port), runner=runner, random=Random(1), retry_s=0)
        yield caller
        caller.close()


@contextmanager
def asking(port: int) -> Iterator[RemoteStoredObjects]:
    with calling(port) as caller:
        yield RemoteStoredObjects(caller)


def test_rows_and_manifests_are_those_of_the_metadata(live_api: LiveApi) -> None:
    bucket = live_api.store.bucket("photos", versioning=Versioning.ENABLED)
    for key in ("a", "b", "a"):
        bucket.put(key, key.encode())
    bucket.delete("b")
    upload = bucket.upload("c")
    for number in (1, 2, 5):
        upload.put(number, b"part")
    with live_api.store.lake.metadata.snapshot() as reader:
        listed = versions_after(reader, EVERYTHING, None, count_max=100)
        manifests = [reader.manifest_file(one.row.version_id) for one in listed]
        parts = parts_after(reader, EVERYTHING, None, count_max=100)
    with asking(live_api.port) as there:
        whole = there.versions("photos", manifests=True)
        assert [(one.row, one.is_latest) for one in whole.versions] == listed
        assert [one.manifest for one in whole.versions] == [one and one.data for one in manifests]
        assert not whole.has_more
        assert there.versions("photos").versions == [StoredVersion(*one) for one in listed]
        assert there.parts("photos") == parts
        first = there.versions("photos", max_versions=3)
        assert [(one.row, one.is_latest) for one in first.versions] == listed[:3]
        last = first.versions[-1].row
        second = there.versions("photos", after=last.key, hlc=last.hlc, site_id=last.site_id)
        assert [(one.row, one.is_latest) for one in second.versions] == listed[3:]
        some = there.parts("photos", max_parts=2)
        upload_id = upload.info.upload_id
        assert some.next == PartPlace("c", upload_id, 2)
        rest = there.parts("photos", after="c", upload_id=upload_id, part=2)
        assert rest.parts == parts.parts[2:]
        assert there.versions("photos", prefix="b", after="a").versions == [
            StoredVersion(*one) for one in listed if one.row.key == "b"
        ]


@pytest.mark.parametrize("only_current", [False, True])
def test_a_sample_is_that_of_the_metadata(live_api: LiveApi, only_current: bool) -> None:
    bucket = live_api.store.bucket("photos", versioning=Versioning.ENABLED)
    for key in ("\U0010ffff", "\ue000", "a\0", "a"):
        bucket.put(key, b"1")
        bucket.put(key, b"2")
    bucket.delete("a")
    live_api.store.bucket("others").put("z", b"1")
    with live_api.store.lake.metadata.snapshot() as reader:
        expected = sample_keys(reader, only_current=only_current)
    assert len(expected.keys) == (4 if only_current else 10)
    with asking(live_api.port) as there:
        assert there.sample(only_current=only_current) == expected


def test_a_page_that_leads_nowhere_is_no_answer() -> None:
    answers = [StoredVersions([], has_more=True), PartPage([], PartPlace("a", "u", 1))]
    with scripted(*(says(document(one)) for one in answers)) as server, asking(server.port) as one:
        with pytest.raises(
            BadAnswer, match="returned an empty page, although more versions follow"
        ):
            one.versions("photos")
        with pytest.raises(BadAnswer, match="returned the same page again"):
            one.parts("photos", after="a", upload_id="u", part=1)
