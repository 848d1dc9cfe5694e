"""The file `topic.json`: a topic's id, its number of partitions and its settings.

    {"format": "lakebed topic", "version": 1, "topic_id": "32 hex digits", "partitions": 3,
     "config": {"retention_ms": 3600000}}

`config` has only the settings that override those of the store. A topic exists if this file does;
`topic_folder` describes what a folder without this file means.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from random import Random

from lakebed.base.config import Value, field_names, load
from lakebed.base.errors import BadConfig, Corrupt, InputError, UnknownVersion
from lakebed.base.files import Disk, read_file, replace_atomically
from lakebed.base.units import GIB, MIB
from lakebed.keratin.config import TopicConfig
from lakebed.keratin.paths import PARTITIONS_CREATED_MAX, PARTITIONS_MAX, TopicPaths
from lakebed.keratin.topic_folder import check_topic_folder

FORMAT = "lakebed topic"
VERSION = 1

# Contradicts no value of another setting.
_COMPATIBLE: Mapping[str, Value] = {"message_bytes_max": 1, "request_bytes_max": GIB}


@dataclass(frozen=True, kw_only=True)
class TopicIdentity:
    """The contents of `topic.json`."""

    topic_id: str
    partition_count: int
    settings: Mapping[str, Value] = field(default_factory=dict)

    def config(self, defaults: TopicConfig, *, topic: str) -> TopicConfig:
        """Returns the settings of the store, overridden by those of the topic.

        Raises `BadConfig`, with the name `topic`, if they contradict each other.
        """
        try:
            return replace(defaults, **self.settings)  # type: ignore[arg-type]
        except BadConfig as error:
            raise BadConfig(
                f"topic {topic}: its settings contradict the store's: {error}"
            ) from error


def new_identity(
    partition_count: int, settings: Mapping[str, object], random: Random
) -> TopicIdentity:
    return TopicIdentity(
        topic_id=f"{random.getrandbits(128):032x}",
        partition_count=partition_count,
        settings=checked_settings(settings),
    )


def check_partition_count(count: int, *, count_max: int = PARTITIONS_CREATED_MAX) -> None:
    if not 1 <= count <= count_max:
        raise InputError(f"{count} partitions: a topic must have 1 to {count_max}")


def checked_settings(settings: Mapping[str, object]) -> dict[str, Value]:
    """Validates the settings of a topic and returns them parsed.

    Sizes and durations may be strings, as in a configuration file. Raises `BadConfig` if a setting
    is wrong, or contradicts another of these settings. `TopicIdentity.config` compares them with
    the store's settings.
    """
    loaded = load(TopicConfig, {**_COMPATIBLE, **settings}, where="the topic's settings")
    return {name: getattr(loaded, name) for name in field_names(TopicConfig) if name in settings}


def load_identity(disk: Disk, paths: TopicPaths) -> TopicIdentity:
    """Reads and decodes `topic.json`.

    Raises `NotFound` if the topic does not exist, `Corrupt` if the topic exists but its
    `topic.json` is missing or damaged or its folder is a symbolic link, `UnknownVersion` if a newer
    release wrote the file, and `BadConfig` if a setting is wrong.
    """
    path = paths.identity
    check_topic_folder(disk, paths)
    data = read_file(disk, path, size_max=MIB)
    try:
        document = json.loads(data)
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise ValueError
        version = document["version"]
        if isinstance(version, int) and version > VERSION:
            raise UnknownVersion(
                "unsupported topic.json version", path=path, expected=VERSION, found=version
            )
        topic_id, count = document["topic_id"], document["partitions"]
        settings = checked_settings(document.get("config", {}))
        are_kinds_right = isinstance(topic_id, str) and type(count) is int
        if version != VERSION or not are_kinds_right:
            raise ValueError
        check_partition_count(count, count_max=PARTITIONS_MAX)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise Corrupt("not a valid topic.json file", path=path) from None
    except BadConfig as error:
        raise BadConfig(f"{path}: {error}") from error
    except InputError as error:
        raise Corrupt(f"not a valid topic.json file: {error}", path=path) from None
    return TopicIdentity(topic_id=topic_id, partition_count=count, settings=settings)


def rebuilt_identity(disk: Disk, paths: TopicPaths, random: Random) -> TopicIdentity:
    """Makes a new identity for a topic whose `topic.json` is missing or damaged.

    The number of partitions is the highest number of a partition folder plus one. The topic gets a
    new id and default settings. Raises `Corrupt` if there is no partition folder.
    """
    numbers = paths.partitions(disk) if disk.is_folder(paths.folder) else []
    if not numbers:
        raise Corrupt(
            "the file is missing or damaged, and cannot be rebuilt because there is no partition "
            "folder",
            path=paths.identity,
        )
    return new_identity(numbers[-1] + 1, {}, random)


def save_identity(disk: Disk, paths: TopicPaths, identity: TopicIdentity) -> None:
    """Replaces `topic.json`, durably."""
    replace_atomically(disk, paths.identity, encode_identity(identity))


def encode_identity(identity: TopicIdentity) -> bytes:
    document = {
        "format": FORMAT,
        "version": VERSION,
        "topic_id": identity.topic_id,
        "partitions": identity.partition_count,
        "config": dict(identity.settings),
    }
    return json.dumps(document, indent=1).encode() + b"\n"
