"""All settings of a root: the file, the environment over it, and where each value came from."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from lakebed.base.config import bounded, check
from lakebed.base.errors import BadConfig, BadName, DiskError
from lakebed.base.settings import FILE_BYTES_MAX, Settings, load_settings


@dataclass(frozen=True, kw_only=True)
class FlushConfig:
    """Two fields that are compared."""

    low_count: int = bounded(1, minimum=0, maximum=100)
    high_count: int = bounded(10, minimum=0, maximum=100)

    def __post_init__(self) -> None:
        check(self)
        if self.low_count > self.high_count:
            raise BadConfig("low_count is above high_count")


@dataclass(frozen=True, kw_only=True)
class FlushLogConfig:
    """Its section's name continues the other's."""

    delay_ms: int = bounded(5, minimum=0, maximum=1000)

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, kw_only=True)
class AccessConfig:
    """One that is a secret."""

    access_key_id: str = ""
    secret_access_key: str = ""

    def __post_init__(self) -> None:
        check(self)


SECTIONS = {"flush": FlushConfig, "flush_log": FlushLogConfig}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "lakebed.toml"


def settings(file: Path, **environment: str) -> Settings:
    return load_settings(SECTIONS, file=file, environment=environment)


def refusal(file: Path, content: bytes, **environment: str) -> str:
    file.write_bytes(content)
    with pytest.raises(BadConfig) as caught:
        settings(file, **environment)
    message = str(caught.value)
    assert len(message) < 600
    return message


def test_without_a_file_the_defaults_are_used(file: Path) -> None:
    found = settings(file)
    assert found.file is None
    assert found.config(FlushConfig) == FlushConfig()
    assert {setting.origin for setting in found} == {"default"}


def test_each_value_knows_where_it_came_from(file: Path) -> None:
    file.write_text("[flush]\nlow_count = 2\nhigh_count = 20\n")
    found = settings(file, LAKEBED_FLUSH_HIGH_COUNT="30", LAKEBED_ROOT="/x", OTHER="1")
    assert found.config(FlushConfig) == FlushConfig(low_count=2, high_count=30)
    assert [tuple(setting) for setting in found] == [
        ("flush", "low_count", 2, str(file)),
        ("flush", "high_count", 30, "LAKEBED_FLUSH_HIGH_COUNT"),
        ("flush_log", "delay_ms", 5, "default"),
    ]


def test_the_longest_section_takes_a_variable(file: Path) -> None:
    found = settings(file, LAKEBED_FLUSH_LOG_DELAY_MS="7ms")
    assert found.config(FlushLogConfig) == FlushLogConfig(delay_ms=7)


def test_a_misspelt_variable_of_a_known_section_is_refused(file: Path) -> None:
    told = refusal(file, b"", LAKEBED_FLUSH_LOW_CUONT="1")
    assert told == "LAKEBED_FLUSH_LOW_CUONT: unknown setting 'low_cuont'; did you mean low_count?"


def test_a_variable_that_breaks_a_rule_of_the_class_is_refused(file: Path) -> None:
    told = refusal(file, b"", LAKEBED_FLUSH_LOW_COUNT="50")
    assert told == "[flush]: low_count is above high_count"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[flush]\nlow_count = 1\nlow_count = 2\n", "line 3"),
        (b"[flush\n", "line 1"),
        (b"\xff\xfe", "not valid UTF-8 at byte 0"),
        (b"\x00", "not valid TOML"),
        (b"[flsuh]\n", "unknown section 'flsuh'; did you mean flush?"),
        (b"flush = 3\n", "flush = 3: expected a table, such as [flush]"),
        (b"[[flush]]\n", "expected a table, such as [flush]"),
        (b"[flush.deeper]\nx = 1\n", "unknown setting 'deeper'"),
        (b"[flush]\nlow_count = 101\n", "[flush]: low_count = 101: expected 0 to 100"),
        (b"[flush]\nlow_count = 2020-01-01\n", "expected a whole number"),
        (b"[flush]\nlow_count = 50\n", "[flush]: low_count is above high_count"),
        (b"[flush]\nlow_count = " + b"9" * 5000, "not valid TOML"),
        (b"x = " + b"[" * 100_000, "nested too deeply"),
        (b"#" * (FILE_BYTES_MAX + 1), "is larger than"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_a_bad_file_is_refused_with_its_name(file: Path, content: bytes, message: str) -> None:
    told = refusal(file, content)
    assert told.startswith(str(file))
    assert message in told


def test_a_folder_in_the_files_place_is_refused(file: Path) -> None:
    file.mkdir()
    with pytest.raises(BadConfig, match="is a folder"):
        settings(file)


def test_a_pipe_in_the_files_place_is_refused_and_not_waited_for(file: Path) -> None:
    os.mkfifo(file)
    with pytest.raises(BadConfig, match="is not a regular file"):
        settings(file)


def test_an_endless_device_in_the_files_place_is_refused(file: Path) -> None:
    file.symlink_to("/dev/zero")
    with pytest.raises(BadConfig, match="is not a regular file"):
        settings(file)


def test_a_link_to_itself_in_the_files_place_is_refused(file: Path) -> None:
    file.symlink_to(file)
    with pytest.raises(BadConfig, match="symbolic links"):
        settings(file)


def test_a_name_that_is_too_long_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadName):
        settings(tmp_path / ("x" * 300))


def test_a_file_that_may_not_be_read_is_refused() -> None:
    nobody = 65534
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        file = Path(folder) / "lakebed.toml"
        file.touch(mode=0o000)
        user = os.geteuid()
        if user == 0:  # who may read everything
            os.seteuid(nobody)
        try:
            with pytest.raises(BadConfig, match="Permission denied"):
                settings(file)
        finally:
            os.seteuid(user)


def test_a_file_that_fails_to_be_read_is_refused(file: Path) -> None:
    file.symlink_to("/proc/self/mem")  # a regular file without a first byte
    with pytest.raises(DiskError, match="Input/output error"):
        settings(file)


def test_no_descriptor_is_left_open(file: Path) -> None:
    before = os.listdir("/proc/self/fd")
    file.mkdir()
    for _ in range(3):
        with pytest.raises(BadConfig):
            settings(file)
    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_a_secret_is_given_and_not_shown(file: Path) -> None:
    environment = {"LAKEBED_ACCESS_ACCESS_KEY_ID": "me", "LAKEBED_ACCESS_SECRET_ACCESS_KEY": "hush"}
    found = load_settings({"access": AccessConfig}, file=file, environment=environment)
    assert found.config(AccessConfig) == AccessConfig(access_key_id="me", secret_access_key="hush")  # noqa: S106
    shown = {setting.name: setting.shown().value for setting in found}
    assert shown == {"access_key_id": "me", "secret_access_key": "(hidden)"}
    unset = load_settings({"access": AccessConfig}, file=file, environment={})
    assert {setting.shown().value for setting in unset} == {""}


def test_a_refusal_does_not_repeat_a_secret(file: Path) -> None:
    file.write_bytes(b"[access]\nsecret_access_key = 48151623\n")
    with pytest.raises(BadConfig, match=r"secret_access_key = \(hidden\): expected text") as caught:
        load_settings({"access": AccessConfig}, file=file, environment={})
    assert "48151623" not in str(caught.value)
