"""What the client's classes offer the embedded ones offer, too, and it is called the same way."""

from __future__ import annotations

import inspect
from typing import Any, Final

import pytest

from lakebed.aof.follower import Follower as EmbeddedLogFollower
from lakebed.aof.log import Aof
from lakebed.aof.tiers.log_tiers import LogTiers
from lakebed.client.append_result import AppendResult
from lakebed.client.bucket import RemoteBucket, RemoteObject
from lakebed.client.following import PartitionFollower
from lakebed.client.group import RemoteGroup
from lakebed.client.keys import RemoteKeys
from lakebed.client.log import RemoteLog, RemoteTiers
from lakebed.client.log_follower import LogFollower
from lakebed.client.manifest_log import RemoteManifestLog
from lakebed.client.partition import RemotePartition
from lakebed.client.pins import RemotePins
from lakebed.client.store import RemoteStore
from lakebed.client.topic import RemoteTopic
from lakebed.client.topics import RemoteTopics
from lakebed.host.store import Store
from lakebed.keratin.append_future import AppendFuture
from lakebed.keratin.follower import Follower
from lakebed.keratin.partition import Partition
from lakebed.seglake.keys import Keys
from lakebed.seglake.reading import ObjectReader
from lakebed.store.bucket import Bucket
from lakebed.store.group import Group
from lakebed.store.manifest_logs import ManifestLog
from lakebed.store.pins import Pins
from lakebed.store.topics import StoreTopic, StoreTopics

PAIRS: Final[list[tuple[type, type]]] = [
    (RemoteStore, Store),
    (RemoteTopics, StoreTopics),
    (RemoteTopic, StoreTopic),
    (RemotePartition, Partition),
    (PartitionFollower, Follower),
    (AppendResult, AppendFuture),
    (RemoteGroup, Group),
    (RemoteLog, Aof),
    (RemoteTiers, LogTiers),
    (RemoteManifestLog, ManifestLog),
    (LogFollower, EmbeddedLogFollower),
    (RemoteBucket, Bucket),
    (RemoteObject, ObjectReader),
    (RemoteKeys, Keys),
    (RemotePins, Pins),
]

OF_THE_WIRE: Final = {
    (RemoteStore, "address"): "where it is",
    (RemoteStore, "health"): "of the one who serves it",
    (RemoteStore, "state"): "of the one who serves it",
    (RemoteStore, "config"): "embedded it is what the program said",
    (RemoteStore, "root"): "embedded it is an attribute",
    (RemotePartition, "page"): "what the other methods are made of",
    (RemotePartition, "segment_bytes"): "files, for those who cannot see them",
    (RemoteLog, "page"): "what the other methods are made of",
    (RemoteLog, "segment_bytes"): "files, for those who cannot see them",
    (PartitionFollower, "poll"): "what the other methods are made of",
    (LogFollower, "poll"): "what the other methods are made of",
}
"""And nothing else is the client's alone."""

OTHERWISE: Final = {
    (RemoteStore, "open"): "it is another thing that is opened",
    (RemotePins, "active"): "the moment is now",
    (RemotePins, "active_offsets"): "the moment is now",
    (RemoteKeys, "create"): "there is one policy",
}
"""Called with fewer or other arguments."""


def offered(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def arguments(function: Any) -> list[tuple[str, object, object]]:
    found = inspect.signature(function).parameters.values()
    return [(one.name, one.kind, one.default) for one in found]


@pytest.mark.parametrize(("remote", "embedded"), PAIRS, ids=lambda kind: kind.__name__)
def test_what_is_offered_over_the_wire_is_offered_embedded(remote: type, embedded: type) -> None:
    alone = {name for kind, name in OF_THE_WIRE if kind is remote}
    own = offered(remote) - offered(embedded)
    assert own == alone, "an exception is missing, or not needed any more"


@pytest.mark.parametrize(("remote", "embedded"), PAIRS, ids=lambda kind: kind.__name__)
def test_methods_take_the_same_arguments(remote: type, embedded: type) -> None:
    different = set()
    for name in offered(remote) & offered(embedded):
        ours, theirs = getattr(remote, name), getattr(embedded, name)
        assert callable(ours) == callable(theirs), name
        if callable(ours) and arguments(ours) != arguments(theirs):
            different.add(name)
    assert different == {name for kind, name in OTHERWISE if kind is remote}
