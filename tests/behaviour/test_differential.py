"""The same calls on three stores: embedded, through the socket of a program that has it open, and
by TLS from `lakebed serve`. Whatever came of a call, a value or an error, is the same."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import lakebed
from lakebed.host.store import Store
from tests.behaviour import scripts
from tests.behaviour.host import Host
from tests.behaviour.outcomes import are_alike
from tests.behaviour.scripts import Script, Spoken
from tests.behaviour.speakers import (
    GroupSpeaker,
    LogSpeaker,
    ObjectSpeaker,
    Speaker,
    TopicSpeaker,
)
from tests.s3.endpoint import Endpoint

pytestmark = pytest.mark.process

FAMILIES: Final[dict[str, tuple[type[Speaker], Script]]] = {
    "topics": (TopicSpeaker, scripts.TOPICS),
    "groups": (GroupSpeaker, scripts.GROUPS),
    "logs": (LogSpeaker, scripts.LOGS),
    "objects": (ObjectSpeaker, scripts.OBJECTS),
}


class Side(NamedTuple):
    kind: str
    store: Any
    root: str


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory, host: Host) -> Iterator[list[Side]]:
    folder = tmp_path_factory.mktemp("sides")
    roots = {kind: folder / kind for kind in ("embedded", "socket", "tls")}
    tls = ("--tls-cert", str(host.ca_file), "--tls-key", str(host.ca_file.with_name("key.pem")))
    host.open(roots["socket"])
    with (
        Endpoint(roots["tls"], *tls, "--http-host", "localhost") as endpoint,
        Store.open(roots["embedded"]) as embedded,
        lakebed.connect(roots["socket"]) as socket,
        lakebed.connect(
            endpoint.http_url,
            access_key=endpoint.access_key,
            secret_key=endpoint.secret_key,
            ca_file=host.ca_file,
        ) as remote,
    ):
        stores = {"embedded": embedded, "socket": socket, "tls": remote}
        yield [Side(kind, store, str(roots[kind])) for kind, store in stores.items()]
    host.close(roots["socket"])


_names = (f"script-{number}" for number in itertools.count())


def compare(sides: list[Side], family: str, script: list[Spoken]) -> None:
    name, kind = next(_names), FAMILIES[family][0]
    speakers = [kind(side.store, side.root, name) for side in sides]
    for number, (call, options) in enumerate(script):
        expected, *others = [speaker.say(call, options) for speaker in speakers]
        for side, found in zip(sides[1:], others, strict=True):
            if not are_alike(expected, found):
                assert found == expected, f"call {number} over {side.kind}: {call} {options}"


_CHECKS = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=10, suppress_health_check=_CHECKS, phases=[Phase.generate])
@given(data=st.data())
def test_the_same_calls_have_the_same_outcomes(
    sides: list[Side], family: str, data: st.DataObject
) -> None:
    compare(sides, family, data.draw(FAMILIES[family][1]))


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=400, suppress_health_check=_CHECKS, derandomize=False, print_blob=True)
@given(data=st.data())
def test_the_same_calls_have_the_same_outcomes_wherever_one_looks(
    sides: list[Side], family: str, data: st.DataObject
) -> None:
    compare(sides, family, data.draw(FAMILIES[family][1]))


def test_a_topic_is_not_truncated_before_a_negative_offset(sides: list[Side]) -> None:
    create = Spoken("create", {"partitions": 1, "settings": {}})
    compare(sides, "topics", [create, Spoken("truncate", {"partition": 0, "offset": -1})])
