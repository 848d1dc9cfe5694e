"""Access keys: told once, sealed at rest, and never opened with a file that is not theirs."""

from __future__ import annotations

import stat
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.base.errors import (
    Corrupt,
    DataError,
    InputError,
    LakebedError,
    SyncFailed,
    Torn,
    UnknownVersion,
)
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.sweep import sweep
from lakebed.base.simulation.world import World
from lakebed.kernels.disk import real_disk
from lakebed.seglake.errors import NoSuchAccessKey, SecretKeyMismatch
from lakebed.seglake.lake import Lake
from lakebed.seglake.model import KeyInfo
from lakebed.seglake.secret_key import SecretKey, encode_secret_key, first_secret_key
from lakebed.seglake.secret_key import read_secret_key as read
from tests.seglake.lake_worlds import PATHS, ROOT, Machine
from tests.seglake.lakes import open_lake

GOLDEN = Path(__file__).parents[1] / "golden" / "api_keys" / "v1"
SAMPLE = SecretKey("secret.key", bytes(range(16)), bytes(range(100, 132)))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "secret.key"


def opened_secret(lake: Lake, access_key: str) -> str | None:
    found = lake.keys.open(access_key)
    return None if found is None else found[1]


# What is done with keys.


def test_a_key_is_created_listed_and_opened(lake: Lake) -> None:
    made = lake.keys.create(label="backup", inflight_max=5)
    other = lake.keys.create()
    assert made.info.label == "backup"
    assert [made.info, other.info] == sorted(
        lake.keys.list(), key=lambda key: key.access_key != made.info.access_key
    )
    assert lake.keys.get(made.info.access_key) == made.info
    assert lake.keys.open(made.info.access_key) == (made.info, made.secret)
    assert made.info.inflight_max == 5
    assert len({made.info.access_key, other.info.access_key, made.secret, other.secret}) == 4
    assert (len(made.info.access_key), len(made.secret)) == (20, 40)


def test_a_key_outlives_the_process(tmp_path: Path) -> None:
    with open_lake(tmp_path) as lake:
        made = lake.keys.create()
    with open_lake(tmp_path) as lake:
        assert opened_secret(lake, made.info.access_key) == made.secret
        again = lake.keys.create()
        assert opened_secret(lake, again.info.access_key) == again.secret


def test_a_disabled_key_is_not_opened_until_it_is_enabled(lake: Lake) -> None:
    made = lake.keys.create()
    generation = lake.keys.generation
    assert not lake.keys.disable(made.info.access_key).is_enabled
    assert lake.keys.generation > generation
    assert lake.keys.open(made.info.access_key) is None
    assert [key.is_enabled for key in lake.keys.list()] == [False]
    assert lake.keys.enable(made.info.access_key) == made.info
    assert opened_secret(lake, made.info.access_key) == made.secret


def test_a_key_that_is_not_there_is_named(lake: Lake) -> None:
    assert lake.keys.open("nobody") is None
    for attempt in (lake.keys.get, lake.keys.disable, lake.keys.enable):
        with pytest.raises(NoSuchAccessKey, match="nobody"):
            attempt("nobody")


@pytest.mark.parametrize("label", ["a" * 257, "two\nlines", "\x1b[2J"])
def test_a_label_that_cannot_be_shown_is_refused(lake: Lake, label: str) -> None:
    with pytest.raises(InputError):
        lake.keys.create(label=label)
    assert lake.keys.list() == []


def test_a_key_must_be_allowed_one_request(lake: Lake) -> None:
    with pytest.raises(InputError):
        lake.keys.create(inflight_max=0)


def test_the_latest_use_is_noted(tmp_path: Path) -> None:
    with open_lake(tmp_path) as lake:
        access_key = lake.keys.create().info.access_key
        for used_ms in (5000, 7000, 6000):
            lake.keys.note_use(access_key, used_ms=used_ms)
        lake.keys.note_use("nobody", used_ms=1)
    with open_lake(tmp_path) as lake:
        assert lake.keys.get(access_key).last_used_ms == 7000
    lake.keys.note_use(access_key, used_ms=8000)  # closed: nobody is bothered with it


# The file.


def test_the_secret_stands_nowhere_in_clear(tmp_path: Path) -> None:
    with open_lake(tmp_path) as lake:
        made = lake.keys.create()
        assert made.secret not in repr(made)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if made.secret.encode() in path.read_bytes()]


def test_the_file_is_for_its_owner_alone_and_made_when_it_is_needed(
    tmp_path: Path, file: Path
) -> None:
    with open_lake(tmp_path) as lake:
        assert lake.keys.list() == []
        assert not file.exists()
        lake.keys.create()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_missing_file_is_named_and_never_made_anew(tmp_path: Path, file: Path) -> None:
    with open_lake(tmp_path) as lake:
        made = lake.keys.create()
    kept = file.read_bytes()
    file.unlink()
    with open_lake(tmp_path) as lake:
        with pytest.raises(SecretKeyMismatch, match=r"secret\.key.*restore"):
            lake.keys.open(made.info.access_key)
        with pytest.raises(SecretKeyMismatch, match="restore"):
            lake.keys.create()
        assert not file.exists()
        file.write_bytes(kept)
        assert opened_secret(lake, made.info.access_key) == made.secret


def test_the_file_of_another_root_is_named_and_left_alone(tmp_path: Path) -> None:
    secrets = []
    for name in ("one", "other"):
        with open_lake(tmp_path / name) as lake:
            secrets.append(lake.keys.create())
    other = (tmp_path / "other" / "secret.key").read_bytes()
    (tmp_path / "one" / "secret.key").write_bytes(other)
    with (
        open_lake(tmp_path / "one") as lake,
        pytest.raises(SecretKeyMismatch, match="key file of this root"),
    ):
        lake.keys.open(secrets[0].info.access_key)
    assert (tmp_path / "one" / "secret.key").read_bytes() == other


def test_the_secret_of_one_key_cannot_stand_in_for_anothers() -> None:
    sealed = SAMPLE.seal("secret", access_key="mine", random_bytes=Random(1).randbytes)
    assert SAMPLE.unseal(sealed, access_key="mine") == "secret"
    with pytest.raises(Corrupt, match="of access key yours is damaged"):
        SAMPLE.unseal(sealed, access_key="yours")


@settings(deadline=None)
@given(st.data())
def test_a_byte_of_a_sealed_secret_that_is_changed_is_noticed(data: st.DataObject) -> None:
    sealed = bytearray(SAMPLE.seal("secret", access_key="a", random_bytes=Random(1).randbytes))
    place = data.draw(st.integers(0, len(sealed) - 1))
    sealed[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(DataError):
        SAMPLE.unseal(bytes(sealed), access_key="a")
    with pytest.raises((Torn, Corrupt)):
        SAMPLE.unseal(bytes(sealed[:place]), access_key="a")


@pytest.mark.parametrize("length", [0, 87, 89])
def test_a_file_of_another_length_is_damaged(file: Path, length: int) -> None:
    file.write_bytes((encode_secret_key(SAMPLE) * 2)[:length])
    with pytest.raises(Corrupt, match=r"secret\.key"):
        read(real_disk(), str(file))


@pytest.mark.parametrize("place", range(88))
def test_a_byte_of_the_file_that_is_changed_is_noticed(file: Path, place: int) -> None:
    data = bytearray(encode_secret_key(SAMPLE))
    data[place] ^= 1
    file.write_bytes(data)
    with pytest.raises((Corrupt, UnknownVersion), match=r"secret\.key"):
        read(real_disk(), str(file))


def test_a_damaged_file_is_not_replaced_even_if_nothing_was_sealed(file: Path) -> None:
    file.write_bytes(b"something else")
    with pytest.raises(Corrupt):
        first_secret_key(real_disk(), str(file), random_bytes=Random(1).randbytes)
    assert file.read_bytes() == b"something else"


def test_the_same_bytes_are_written_and_read_today() -> None:
    sealed = SAMPLE.seal("secret", access_key="LAKE1", random_bytes=Random(1).randbytes)
    assert encode_secret_key(SAMPLE) == (GOLDEN / "secret.key").read_bytes()
    assert sealed == (GOLDEN / "sealed.bin").read_bytes()
    read_back = read(real_disk(), str(GOLDEN / "secret.key"))
    assert read_back.unseal(sealed, access_key="LAKE1") == "secret"


# Crashes.


class Creating:
    """Two keys are made, and the second is disabled."""

    def __init__(self) -> None:
        self._told: list[tuple[KeyInfo, str]] = []
        self._is_disabled = False

    def run(self, world: World) -> None:
        world.disk.make_folder(ROOT)
        world.disk.sync_folder("/")
        with Machine(world, "run") as machine, machine.open() as lake:
            for _ in range(2):
                made = lake.keys.create()
                self._told.append((made.info, made.secret))
            lake.keys.disable(self._told[1][0].access_key)
            self._is_disabled = True

    def check(self, world: World) -> None:
        with Machine(world, "after the crash") as machine:
            lake = machine.open()
            listed = {key.access_key: key for key in lake.keys.list()}
            for info, secret in self._told[:1]:
                assert lake.keys.open(info.access_key) == (info, secret)
            for info, _ in self._told[1:]:
                assert not (self._is_disabled and listed[info.access_key].is_enabled)
            for key in listed.values():
                assert not key.is_enabled or lake.keys.open(key.access_key) is not None
            again = lake.keys.create()
            machine.world.restart(Crash.POWER)
            with machine.open() as lake:
                assert lake.keys.open(again.info.access_key) == (again.info, again.secret)
        left = [name for name in world.disk.names(ROOT) if name.startswith("secret.key")]
        assert left == [PATHS.secret_key.rpartition("/")[2]]


@pytest.mark.sweep
def test_a_key_that_was_told_can_be_used_after_any_crash() -> None:
    assert sweep(Creating, seeds=range(2), survivors=range(3), cases_max=400) > 50


def test_a_failed_write_of_the_file_creates_no_key(tmp_path: Path) -> None:
    (tmp_path / "secret.key").mkdir()
    with open_lake(tmp_path) as lake:
        with pytest.raises(LakebedError):
            lake.keys.create()
        assert lake.keys.list() == []


def test_a_file_whose_folder_was_not_synced_is_written_once_more() -> None:
    world = World(1)
    world.disk.make_folder(ROOT)
    world.disk.sync_folder("/")
    with Machine(world, "run") as machine:
        lake = machine.open()
        world.disk.faults.fail("fsync", nth=1)
        with pytest.raises(SyncFailed):
            lake.keys.create()
        assert world.disk.exists(PATHS.secret_key)
        made = lake.keys.create()
        world.restart(Crash.POWER)
        with machine.open() as lake:
            assert lake.keys.open(made.info.access_key) == (made.info, made.secret)
