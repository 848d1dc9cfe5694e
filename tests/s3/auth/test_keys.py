"""The keys that requests may be signed with: the first, the store's, and how long they are kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lakebed.base.errors import BadConfig
from lakebed.s3.auth.authenticator import Authenticator
from lakebed.s3.auth.first_credentials import first_credentials
from lakebed.s3.auth.redaction import redacted
from lakebed.s3.errors import S3Error
from lakebed.seglake.endpoint_config import EndpointConfig
from lakebed.seglake.key_ring import Credentials, KeyRing, KnownKey
from lakebed.seglake.lake import Lake
from tests.s3.auth.reference_signer import presigned, signed_by_header
from tests.s3.auth.signed_requests import ACCESS_KEY, CREDENTIALS, authenticator, clock_at
from tests.seglake.lakes import open_lake


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with open_lake(tmp_path) as opened:
        yield opened


# The ring.


def test_the_first_credentials_and_those_of_the_store_are_known(lake: Lake) -> None:
    made = lake.keys.create(inflight_max=3)
    ring = KeyRing(CREDENTIALS, lake.keys)
    assert ring.find(ACCESS_KEY) == KnownKey(CREDENTIALS.secret, True, None)
    assert ring.find(made.info.access_key) == KnownKey(made.secret, False, 3)
    assert ring.find("nobody") is None
    assert KeyRing().find(ACCESS_KEY) is None


def test_a_key_that_is_disabled_is_refused_at_once_and_a_new_one_accepted(lake: Lake) -> None:
    made = lake.keys.create()
    ring = KeyRing(None, lake.keys)
    known = ring.find(made.info.access_key)
    assert known is not None
    assert ring.find(made.info.access_key) is known  # kept
    lake.keys.disable(made.info.access_key)
    assert ring.find(made.info.access_key) is None
    lake.keys.enable(made.info.access_key)
    assert ring.find(made.info.access_key) == known
    other = lake.keys.create()
    assert ring.find(other.info.access_key) is not None


def test_few_keys_are_kept(lake: Lake) -> None:
    made = [lake.keys.create() for _ in range(3)]
    ring = KeyRing(None, lake.keys, count_max=2)
    first = ring.find(made[0].info.access_key)
    for key in made:
        assert ring.find(key.info.access_key) is not None
    again = ring.find(made[0].info.access_key)
    assert again == first
    assert again is not first


def test_the_use_of_a_key_is_noted_once_an_hour(tmp_path: Path) -> None:
    with open_lake(tmp_path) as lake:
        made = lake.keys.create()
        ring = KeyRing(CREDENTIALS, lake.keys)
        for now_s in (1000, 1001, 4599):
            ring.note_use(made.info.access_key, now_s)
            ring.note_use(ACCESS_KEY, now_s)
    with open_lake(tmp_path) as lake:
        assert lake.keys.get(made.info.access_key).last_used_ms == 1_000_000
        ring = KeyRing(CREDENTIALS, lake.keys)
        ring.note_use(made.info.access_key, 4600)
    with open_lake(tmp_path) as lake:
        assert lake.keys.get(made.info.access_key).last_used_ms == 4_600_000


def test_no_secret_is_shown_by_accident() -> None:
    known = KnownKey(CREDENTIALS.secret, True, None)
    assert CREDENTIALS.secret not in repr(CREDENTIALS) + repr(known) + f"{known}{CREDENTIALS}"


def test_an_identity_has_the_limit_of_its_key() -> None:
    ring = KeyRing()
    known = KnownKey(CREDENTIALS.secret, is_first=False, inflight_max=3)
    ring.remember(ACCESS_KEY, known, generation=ring.generation)
    identity = authenticator(keys=ring).authenticate(signed_by_header().request())
    assert (identity.access_key, identity.inflight_max) == (ACCESS_KEY, 3)
    assert not identity.is_exempt


# The first credentials.


def test_the_environment_gives_the_first_credentials(lake: Lake) -> None:
    environment = {"LAKEBED_ACCESS_KEY": "admin", "LAKEBED_SECRET_KEY": "a secret!"}
    found = first_credentials(environment, lake.keys)
    assert found == (Credentials("admin", "a secret!"), False)
    assert lake.keys.list() == []


def test_a_store_without_keys_gets_one_that_is_told_once(lake: Lake) -> None:
    found = first_credentials({}, lake.keys)
    assert found.is_new
    assert found.credentials is not None
    assert first_credentials({"LAKEBED_ACCESS_KEY": ""}, lake.keys) == (None, False)
    # It is the first one also for those who were not told its secret.
    known = KeyRing(None, lake.keys).find(found.credentials.access_key)
    assert known == KnownKey(found.credentials.secret, True, None)


def test_a_store_that_has_keys_gets_no_other(lake: Lake) -> None:
    made = lake.keys.create()
    lake.keys.disable(made.info.access_key)
    assert first_credentials({}, lake.keys) == (None, False)


@pytest.mark.parametrize(
    ("access_key", "secret", "named"),
    [
        ("admin", "", "LAKEBED_SECRET_KEY"),
        ("", "a secret", "LAKEBED_ACCESS_KEY"),
        ("a/b", "a secret", "LAKEBED_ACCESS_KEY"),
        ("a,b", "a secret", "LAKEBED_ACCESS_KEY"),
        ("ab", "a secret", "LAKEBED_ACCESS_KEY"),
        ("admin", "short", "LAKEBED_SECRET_KEY"),
        ("admin", "ends in a newline\n", "LAKEBED_SECRET_KEY"),
        ("admin", "ümlaut-ümlaut", "LAKEBED_SECRET_KEY"),
    ],
)
def test_credentials_that_cannot_be_used_are_refused(
    lake: Lake, access_key: str, secret: str, named: str
) -> None:
    environment = {"LAKEBED_ACCESS_KEY": access_key, "LAKEBED_SECRET_KEY": secret}
    with pytest.raises(BadConfig, match=named) as refused:
        first_credentials(environment, lake.keys)
    assert not secret or secret not in str(refused.value)


# Replays.


def replaying(**settings: Any) -> Authenticator:
    return authenticator(replay_ttl_ms=1000, **settings)


def test_a_replay_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    watching = replaying()
    request = signed_by_header().request()
    watching.authenticate(request)
    assert not caplog.records
    watching.authenticate(request)
    assert f"access key {ACCESS_KEY}: a request repeats an earlier signature" in caplog.text
    assert watching.replays_detected == 1
    assert request.headers["authorization"][-64:] not in caplog.text


def test_a_replay_is_refused_if_that_is_asked_for() -> None:
    clock = clock_at()
    config = EndpointConfig(replay_ttl_ms=1000, replay_block=True)
    watching = Authenticator(KeyRing(CREDENTIALS), config=config, clock=clock)
    request = signed_by_header().request()
    watching.authenticate(request)
    with pytest.raises(S3Error) as refused:
        watching.authenticate(request)
    assert refused.value.code == "AccessDenied"
    clock.advance(1_000_000_000)
    watching.authenticate(request)  # its time is over


def test_only_so_many_signatures_are_remembered() -> None:
    watching = replaying(replay_block=True, replay_cache_max=2)
    requests = [signed_by_header(path=path).request() for path in (b"/1", b"/2", b"/3")]
    for request in requests:
        watching.authenticate(request)
    watching.authenticate(requests[0])
    with pytest.raises(S3Error):
        watching.authenticate(requests[2])


def test_a_wrong_signature_is_not_remembered() -> None:
    watching = replaying(replay_block=True)
    good = signed_by_header()
    bad = good._replace(headers={**good.headers, "host": "elsewhere"})
    with pytest.raises(S3Error):
        watching.authenticate(bad.request())
    watching.authenticate(good.request())


def test_a_presigned_url_may_be_used_repeatedly() -> None:
    watching = replaying(replay_block=True)
    for _ in range(3):
        watching.authenticate(presigned().request())


# Logs.


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        (b"", ""),
        (b"prefix=a&max-keys=2", "prefix=a&max-keys=2"),
        (b"X-Amz-Signature=abc", "X-Amz-Signature=***"),
        (b"a=b&x-amz-credential=K%2Fd&c=d", "a=b&x-amz-credential=***&c=d"),
        (b"X-Amz-Security-Token=t&X-Amz-Date=1", "X-Amz-Security-Token=***&X-Amz-Date=1"),
        (b"AWSAccessKeyId=k&Signature=s&Expires=1", "AWSAccessKeyId=***&Signature=***&Expires=1"),
        (b"X%2DAmz-Signature=abc&b=c", "X%2DAmz-Signature=***&b=c"),
        (b"not-X-Amz-Signature=abc", "not-X-Amz-Signature=abc"),
        (b"a=\xff\n", "a=\\xff\\x0a"),
    ],
)
def test_a_log_shows_no_signature(query: bytes, shown: str) -> None:
    assert redacted(query) == shown
