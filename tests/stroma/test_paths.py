"""Names of groups as names of files: none collides, none leaves the folder."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.base.errors import BadName, TooLarge
from lakebed.base.files import make_folders
from lakebed.base.simulation.world import World
from lakebed.stroma.paths import GroupName, GroupPaths, decode_stem, encode_stem, list_groups
from tests.stroma.groups import ROOT, Opened

TEXTS = st.text(st.characters(codec="utf-8") | st.sampled_from("-_%/.~0"), min_size=1, max_size=80)
NAMES = st.builds(GroupName, TEXTS, st.integers(0, 2**31 - 1), TEXTS)

ODD = ["..", ".", "/", "../../etc/passwd", "a/b", "réservoir", "水", "a\0b", "a b", "%", "%2F",
       "~" * 3, "x" * 300, "_" * 300, "CON", "a\n", "🦀" * 60]  # fmt: skip


def test_plain_names_are_as_the_format_says() -> None:
    assert encode_stem(GroupName("orders", 3, "billing")) == "orders-3_billing"
    assert encode_stem(GroupName("a-b", 0, "c_d")) == "a%2Db-0_c%5Fd"


def test_the_hashes_are_of_the_names_unencoded() -> None:
    name = GroupName("orders", 3, "billing")
    assert f"{name.tp_hash():016x}" == "8d5ce6faa74beba3"
    assert f"{name.group_hash():016x}" == "735e2f6c0ffbdfe9"


@pytest.mark.parametrize("text", ODD, ids=ascii)
def test_odd_names_stay_in_the_folder_and_come_back(text: str) -> None:
    world = World(0)
    names = sorted([GroupName(text, 0, "g"), GroupName("t", 0, text), GroupName(text, 1, text)])
    for name in names:
        paths = GroupPaths(ROOT, name)
        for path in (paths.snapshot, paths.delta, paths.names):
            assert os.path.dirname(os.path.normpath(path)) == paths.folder
            assert len(os.path.basename(path).encode()) <= 255 - len(".123456.tmp")
        paths.ensure(world.disk)
        world.disk.create(paths.delta).close()
    assert list_groups(world.disk, ROOT) == names
    for name in names:
        GroupPaths(ROOT, name).remove(world.disk)
    assert world.disk.names(f"{ROOT}/groups") == []


@given(NAMES, NAMES)
def test_no_two_names_share_a_file(one: GroupName, other: GroupName) -> None:
    assert (encode_stem(one) == encode_stem(other)) == (one == other)


@given(NAMES)
def test_a_name_comes_back_unless_it_was_too_long(name: GroupName) -> None:
    stem = encode_stem(name)
    assert decode_stem(stem) == (None if stem.startswith("~") else name)


@given(st.text(max_size=60) | st.from_regex(r"[a.%2-]+-[0-9]+_[a.%2-]+", fullmatch=True))
def test_any_other_file_is_no_group_or_named_so(stem: str) -> None:
    name = decode_stem(stem)
    assert name is None or encode_stem(name) == stem


NEIGHBOURS = [
    (GroupName("a-1", 2, "b"), GroupName("a", 1, "2_b")),
    (GroupName("a", 1, "b_c"), GroupName("a_1", 1, "c")),
    (GroupName("%2D", 0, "b"), GroupName("-", 0, "b")),
]


@pytest.mark.parametrize(("one", "other"), NEIGHBOURS)
def test_names_made_to_collide_do_not(one: GroupName, other: GroupName) -> None:
    assert encode_stem(one) != encode_stem(other)


WRONG = [("", 0, "g"), ("t", 0, ""), ("t", -1, "g"), ("t", 2**31, "g"), ("\ud800", 0, "g"),
         ("t", 0, "\udfff")]  # fmt: skip


@pytest.mark.parametrize(("topic", "partition", "group"), WRONG, ids=ascii)
def test_what_is_no_name_is_refused(topic: str, partition: int, group: str) -> None:
    with pytest.raises(BadName):
        GroupPaths(ROOT, GroupName(topic, partition, group))


def test_a_name_has_a_maximum() -> None:
    with pytest.raises(TooLarge):
        encode_stem(GroupName("t", 0, "x" * 40_000))


def test_files_of_others_are_not_listed() -> None:
    world = World(0)
    assert list_groups(world.disk, ROOT) == []
    Opened(world).close()
    make_folders(world.disk, f"{ROOT}/groups")
    for name in ("README", "x.snap", "a-01_b.snap", "a-1_b.snap.3.tmp", "~00.delta", ".delta",
                 "~" + "0" * 64 + ".snap", "a%2d-1_b.snap", "a%FF-1_b.delta"):  # fmt: skip
        world.disk.create(f"{ROOT}/groups/{name}").close()
    assert list_groups(world.disk, ROOT) == [GroupName("orders", 0, "billing")]
