"""Options of data sources: text to values, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from lakebed.base.errors import BadConfig
from lakebed.base.units import MIB
from lakebed.spark.backends import BACKEND_OPTIONS, Backend, backend_of
from lakebed.spark.options import Options

KNOWN = ("topic", "topics", "partitionBytes", "maxRows", "pinSeconds", "startingTimestamp", "flag")


def options(**given: str) -> Options:
    return Options("lakebed.topic", given, known=[*BACKEND_OPTIONS, *KNOWN])


def test_names_are_known_in_any_case() -> None:
    assert options(PARTITIONBYTES="64MiB").size("partitionBytes") == 64 * MIB
    assert options(partitionbytes="64MiB").size("partitionBytes") == 64 * MIB


def test_an_unknown_option_is_refused_and_the_known_ones_are_named() -> None:
    with pytest.raises(BadConfig, match="unknown option 'topik': did you mean topic") as caught:
        options(topik="a")
    assert "partitionBytes" in str(caught.value)
    assert "lakebed.topic" in str(caught.value)


def test_options_of_spark_itself_are_passed_over() -> None:
    assert not options(checkpointLocation="/somewhere").has("topic")


def test_empty_text_is_as_if_nothing_were_given() -> None:
    assert options(topic="  ").text("topic") is None
    with pytest.raises(BadConfig, match="topic is missing"):
        options(topic="").required("topic")


def test_one_of_two_must_be_given_and_not_both() -> None:
    assert options(topics="a").one_of("topic", "topics") == "topics"
    with pytest.raises(BadConfig, match="set the option topic or topics"):
        options().one_of("topic", "topics")
    with pytest.raises(BadConfig, match="only one of the options topic or topics"):
        options(topic="a", topics="b").one_of("topic", "topics")


def test_names_stand_between_commas_and_none_twice() -> None:
    assert options(topics=" a, b,,c ").names("topics") == ["a", "b", "c"]
    with pytest.raises(BadConfig, match="a list of different names"):
        options(topics="a,a").names("topics")


@pytest.mark.parametrize(("text", "seconds"), [("5", 5.0), ("1.5", 1.5), ("10min", 600.0)])
def test_seconds_are_a_number_or_have_a_unit(text: str, seconds: float) -> None:
    assert options(pinSeconds=text).seconds("pinSeconds", default=1, maximum=3600) == seconds


@pytest.mark.parametrize("text", ["-1", "3601", "soon", "nan", "5parsecs"])
def test_seconds_that_are_none_or_too_many_are_refused(text: str) -> None:
    with pytest.raises(BadConfig, match="pinSeconds"):
        options(pinSeconds=text).seconds("pinSeconds", default=1, maximum=3600)


@pytest.mark.parametrize(
    ("text", "moment_us"),
    [
        ("1700000000123", 1_700_000_000_123_000),
        ("2023-11-14T22:13:20Z", 1_700_000_000_000_000),
        ("2023-11-14T22:13:20", 1_700_000_000_000_000),
        ("2023-11-14T23:13:20.000001+01:00", 1_700_000_000_000_001),
    ],
)
def test_a_moment_is_milliseconds_or_a_date(text: str, moment_us: int) -> None:
    assert options(startingTimestamp=text).moment_us("startingTimestamp") == moment_us


@pytest.mark.parametrize(
    ("name", "text", "read"),
    [
        ("maxRows", "0", lambda one: one.number("maxRows", minimum=1)),
        ("maxRows", "many", lambda one: one.number("maxRows")),
        ("maxRows", "9" * 30, lambda one: one.number("maxRows")),
        ("partitionBytes", "64 parsecs", lambda one: one.size("partitionBytes")),
        ("partitionBytes", "0", lambda one: one.size("partitionBytes")),
        ("flag", "maybe", lambda one: one.flag("flag", default=True)),
        ("flag", "{", lambda one: one.document("flag")),
        ("startingTimestamp", "yesterday", lambda one: one.moment_us("startingTimestamp")),
    ],
)
def test_what_is_wrong_is_told_with_the_option(name: str, text: str, read: Any) -> None:
    with pytest.raises(BadConfig, match=f"lakebed.topic: the option {name} is"):
        read(options(**{name: text}))


def test_a_path_is_of_the_drivers_folder() -> None:
    assert backend_of(options(path="/data/../data/store")) == Backend(path="/data/store")
    assert backend_of(options(path="file:///data/store")).path == "/data/store"


def test_keys_go_with_an_endpoint_alone_and_together() -> None:
    with pytest.raises(BadConfig, match="can only be used with endpoint, not with path"):
        backend_of(options(path="/data", accessKey="a"))
    with pytest.raises(BadConfig, match="set both options accessKey and secretKey"):
        backend_of(options(endpoint="http://h:1", accessKey="a"))
    with pytest.raises(BadConfig, match="must be a URL"):
        backend_of(options(endpoint="h:1"))


def test_keys_that_are_left_out_are_those_of_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEBED_ACCESS_KEY", "mine")
    monkeypatch.setenv("LAKEBED_SECRET_KEY", "hidden")
    backend = backend_of(options(endpoint="http://127.0.0.1:9001"))
    assert (backend.access_key, backend.secret_key) == ("mine", "hidden")


def test_a_secret_is_in_no_text() -> None:
    backend = backend_of(options(endpoint="http://key:hidden@h:1"))
    other = backend_of(options(endpoint="http://h:1", accessKey="a", secretKey="hidden"))
    for text in (str(backend), repr(backend), str(other), repr(other)):
        assert "hidden" not in text
