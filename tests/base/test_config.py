"""Configuration classes: what can be built, what is refused, and what the refusal says."""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError, dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.base.config import bounded, check, field_names, load, read_text, unit_of
from lakebed.base.errors import BadConfig
from lakebed.base.units import GIB, KIB, MIB

WHERE = "lakebed.toml: [engine]"


@dataclass(frozen=True, kw_only=True)
class EngineConfig:
    """One field of every kind."""

    segment_bytes: int = bounded(64 * MIB, minimum=64 * KIB, maximum=GIB)
    flush_ms_max: int = bounded(5, minimum=0, maximum=60_000)
    worker_count: int = bounded(2, minimum=1, maximum=64)
    ratio: float = bounded(0.5, minimum=0.0, maximum=1.0)
    wait_s: float = bounded(1.0, minimum=0.0, maximum=60.0)
    enabled: bool = True
    prefix: str = "aof2"

    def __post_init__(self) -> None:
        check(self)
        if self.worker_count > 8 and not self.enabled:
            raise BadConfig("worker_count is above 8 though enabled is false")


def refusal(**values: object) -> str:
    with pytest.raises(BadConfig) as caught:
        load(EngineConfig, values, where=WHERE)
    return str(caught.value)


def test_what_is_left_out_keeps_its_default() -> None:
    assert load(EngineConfig, {}, where=WHERE) == EngineConfig()
    assert load(EngineConfig, {"worker_count": 3}, where=WHERE) == EngineConfig(worker_count=3)


def test_a_config_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        EngineConfig().worker_count = 3  # type: ignore[misc]


def test_limits_are_checked_at_construction() -> None:
    with pytest.raises(BadConfig, match="worker_count = 65: expected 1 to 64"):
        EngineConfig(worker_count=65)
    assert EngineConfig(worker_count=64).worker_count == 64
    assert EngineConfig(worker_count=1).worker_count == 1


def test_a_default_outside_its_own_limits_is_our_mistake() -> None:
    with pytest.raises(ValueError, match="default 9"):
        bounded(9, minimum=0, maximum=8)


def test_units_are_taken_from_the_name() -> None:
    config = load(
        EngineConfig,
        {"segment_bytes": "1MiB", "flush_ms_max": "2s", "wait_s": "1500ms"},
        where=WHERE,
    )
    assert config == EngineConfig(segment_bytes=MIB, flush_ms_max=2000, wait_s=1.5)


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("reserve_bytes", "bytes"),
        ("batch_bytes_max", "bytes"),
        ("delay_ms_max", "ms"),
        ("age_ns", "ns"),
        ("age_us_min", "us"),
        ("wait_s", "s"),
        ("count_max", None),
        ("ms", None),
        ("bytes", None),
        ("items", None),
        ("bytes_ratio", None),
    ],
)
def test_the_unit_is_the_last_word_before_a_limit(name: str, unit: str | None) -> None:
    assert unit_of(name) == unit


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("worker_count", 0, "worker_count = 0: expected 1 to 64"),
        ("worker_count", 10**400, "worker_count = an enormous number: expected 1 to 64"),
        ("worker_count", "3", "worker_count = '3': expected a whole number"),
        ("worker_count", True, "worker_count = True: expected a whole number"),
        ("worker_count", 2.0, "worker_count = 2.0: expected a whole number"),
        ("worker_count", [1], "worker_count = [1]: expected a whole number"),
        ("worker_count", {"a": 1}, "worker_count = {'a': 1}: expected a whole number"),
        ("enabled", 1, "enabled = 1: expected true or false"),
        ("prefix", 1, "prefix = 1: expected text"),
        ("ratio", "half", "ratio = 'half': expected a number"),
        ("ratio", math.nan, "ratio = nan: expected 0.0 to 1.0"),
        ("ratio", math.inf, "ratio = inf: expected 0.0 to 1.0"),
        ("ratio", 10**400, "ratio = inf: expected 0.0 to 1.0"),
        ("segment_bytes", 1.5, 'expected a whole number of bytes, or text such as "64MiB"'),
        ("segment_bytes", "-1MiB", "segment_bytes: '-1MiB' is not a size"),
        ("segment_bytes", "2GiB", f"segment_bytes = {2 * GIB}: expected {64 * KIB} to {GIB}"),
        ("flush_ms_max", "1500us", "flush_ms_max = '1500us': not a whole number of ms"),
        ("flush_ms_max", "5", "flush_ms_max: '5' is not a duration: the unit is missing"),
    ],
)
def test_a_refusal_names_place_setting_value_and_range(
    name: str, value: object, message: str
) -> None:
    told = refusal(**{name: value})
    assert told.startswith(f"{WHERE}: ")
    assert message in told


@dataclass(frozen=True, kw_only=True)
class SecretConfig:
    """Numbers whose names mark them as secrets."""

    token_bytes: int = bounded(5, minimum=0, maximum=10)
    secret_ms: int = 5
    password_s: float = 1.0
    secret: str = ""

    def __post_init__(self) -> None:
        check(self)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("token_bytes", 481516),
        ("token_bytes", "481516"),
        ("token_bytes", "hush 481516"),
        ("secret_ms", "481516us"),
        ("secret_ms", True),
        ("password_s", math.inf),
        ("password_s", "hush"),
        ("secret", 481516),
    ],
)
def test_a_refusal_hides_the_value_of_a_secret(name: str, value: object) -> None:
    with pytest.raises(BadConfig, match=rf"{name} = \(hidden\): ") as caught:
        load(SecretConfig, {name: value}, where=WHERE)
    cause: BaseException | None = caught.value
    while cause is not None:
        assert not any(text in str(cause) for text in ("481516", "hush", "True", "inf"))
        cause = cause.__cause__


def test_an_unknown_setting_gets_a_hint() -> None:
    assert refusal(worker_cuont=3).endswith(
        "unknown setting 'worker_cuont'; did you mean worker_count?"
    )
    assert "known: enabled, flush_ms_max" in refusal(**{"zzz\n\x1b[2J": 3})
    assert len(refusal(**{"x" * 100_000: 3})) < 400


def test_a_refusal_of_the_class_itself_is_told_with_its_place() -> None:
    told = refusal(worker_count=9, enabled=False)
    assert told == f"{WHERE}: worker_count is above 8 though enabled is false"


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("worker_count", "7", 7),
        ("worker_count", " 7 ", 7),
        ("segment_bytes", "65536", 65536),
        ("segment_bytes", "1MiB", MIB),
        ("flush_ms_max", "5", 5),
        ("flush_ms_max", "1s", 1000),
        ("ratio", "0.25", 0.25),
        ("ratio", "1", 1.0),
        ("wait_s", "100ms", 0.1),
        ("enabled", "false", False),
        ("enabled", "TRUE", True),
        ("enabled", "0", False),
        ("prefix", "7", "7"),
    ],
)
def test_text_is_read_by_the_kind_of_its_field(name: str, text: str, value: object) -> None:
    read = read_text(EngineConfig, name, text, where="LAKEBED_ENGINE")
    assert (read, type(read)) == (value, type(value))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("worker_count", ""),
        ("worker_count", "seven"),
        ("worker_count", "٣"),  # an Arabic digit
        ("worker_count", "1_0"),
        ("worker_count", "9" * 5000),
        ("ratio", "nan"),
        ("ratio", "inf"),
        ("ratio", "1e-1"),
        ("enabled", "maybe"),
        ("enabled", ""),
        ("flush_ms_max", "-5"),
    ],
)
def test_text_of_another_kind_is_refused(name: str, text: str) -> None:
    with pytest.raises(BadConfig, match=f"LAKEBED_ENGINE: {name}"):
        read_text(EngineConfig, name, text, where="LAKEBED_ENGINE")


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
    st.lists(st.integers(), max_size=3),
)


@given(st.dictionaries(st.sampled_from([*field_names(EngineConfig), "other"]), VALUES))
def test_any_mapping_is_loaded_or_refused_in_one_line(mapping: dict[str, object]) -> None:
    message = ""
    try:
        load(EngineConfig, mapping, where=WHERE)
    except BadConfig as error:
        message = str(error)
    assert message.isprintable()
