"""The settings that count in a store that is open, by section, fit to be told to anybody.

What a setting's name calls a secret is told as whether there is one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final

from lakebed.aof.config import AofConfig, ManagerConfig
from lakebed.aof.tiers.config import SharedTierConfig
from lakebed.base.config import is_secret
from lakebed.keratin.config import TopicConfig
from lakebed.seglake.config import SeglakeConfig
from lakebed.stroma.config import GroupConfig

SET: Final = "(set)"

Section = dict[str, Any]


def sections_of(
    config: AofConfig,
    manager: ManagerConfig,
    tier2: SharedTierConfig,
    topics: TopicConfig,
    groups: GroupConfig,
    objects: SeglakeConfig,
) -> dict[str, Any]:
    """Named as in `lakebed.toml`."""
    return {
        "aof": config,
        "aof_flush": config.flush,
        "aof_retention": config.retention,
        "aof_manifest": config.manifest,
        "aof_tiers": config.tiers,
        "aof_manager": manager,
        "aof_tier2": tier2,
        "keratin": topics,
        "stroma": groups,
        "s3": objects,
    }


def printable_settings(configs: Mapping[str, Any]) -> dict[str, Section]:
    return {name: _plain(config) for name, config in configs.items()}


def _plain(config: Any) -> Section:
    """Without the parts that are sections of their own."""
    found: Section = {}
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if isinstance(value, Enum):
            value = value.value
        if is_secret(field.name):
            value = SET if value else ""
        if isinstance(value, bool | int | float | str):
            found[field.name] = value
    return found
