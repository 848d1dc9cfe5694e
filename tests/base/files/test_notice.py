"""A file for other processes: what it says, when it says nothing, and what a failure costs."""

from __future__ import annotations

import pytest

from lakebed.base.errors import Corrupt, UnknownVersion, WriteFailed
from lakebed.base.files.notice import Notice, read_notice
from lakebed.base.layout import Buffer
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.world import World

PATH = "/notice"


def decode(data: Buffer) -> bytes:
    found = bytes(data)
    if found.startswith(b"newer"):
        raise UnknownVersion("notice", path=PATH, expected=1, found=2)
    if len(found) != 4:
        raise Corrupt("no notice", path=PATH, offset=0)
    return found


def read(world: World) -> bytes | None:
    return read_notice(world.disk, PATH, size=8, decode=decode)


def started(world: World) -> Notice:
    notice = Notice(world.disk, PATH)
    notice.start(b"one.")
    return notice


def test_it_says_what_was_told_last_and_nothing_if_it_is_missing_or_damaged() -> None:
    world = World(1)
    assert read(world) is None
    notice = started(world)
    assert read(world) == b"one."
    notice.publish(b"two.")
    assert read(world) == b"two."
    notice.publish(b"damaged")
    assert read(world) is None
    notice.publish(b"newer..")
    with pytest.raises(UnknownVersion):
        read(world)


def test_with_the_power_only_news_is_lost_and_after_a_clean_end_nothing() -> None:
    world = World(2)
    notice = started(world)
    notice.publish(b"two.")
    world.restart(Crash.POWER)
    assert read(world) in (b"one.", b"two.")
    notice = started(world)
    notice.publish(b"six.")
    notice.close()
    notice.close()
    world.restart(Crash.POWER)
    assert read(world) == b"six."


def test_a_failure_keeps_the_news_from_the_others_and_harms_nobody() -> None:
    world = World(3)
    notice = started(world)
    world.disk.faults.fail("pwrite")
    notice.publish(b"two.")
    assert read(world) == b"one."
    notice.publish(b"six.")
    assert read(world) == b"six."
    world.disk.faults.fail("fdatasync")
    notice.close()
    world.disk.faults.fail("pwrite")
    with pytest.raises(WriteFailed):  # what an earlier writer left would be believed
        Notice(world.disk, PATH).start(b"one.")
