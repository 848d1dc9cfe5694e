"""The effective settings of an open store, by section, without secrets.

A setting whose name marks it as a secret, such as `secret_access_key`, is shown as `(set)`, or as
an empty string if it has no value.
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
    """Returns each configuration, and those nested in `config`, by section of `lakebed.toml`."""
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
    """Returns the scalar settings of a configuration, without the values of secrets.

    Nested configurations are left out, because each is a section of its own.
    """
    section: Section = {}
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if isinstance(value, Enum):
            value = value.value
        if is_secret(field.name):
            value = SET if value else ""
        if isinstance(value, bool | int | float | str):
            section[field.name] = value
    return section
