"""The settings of a simulated store as plain data. Limits are so small that runs reach them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any, NamedTuple

from lakebed.aof.config import AofConfig, FlushConfig, RetentionConfig
from lakebed.aof.manifest.config import ManifestConfig
from lakebed.aof.tiers.config import SharedTierConfig, TierConfig
from lakebed.base.units import KIB
from lakebed.keratin.config import TopicConfig
from lakebed.seglake.config import SeglakeConfig
from lakebed.stroma.config import GroupConfig

Settings = Mapping[str, Any]

LOG_SEGMENT_BYTES = 64 * KIB
TOPIC_SEGMENT_BYTES = 16 * KIB


class Configs(NamedTuple):
    """The configurations that are passed to `Store.open`."""

    log: AofConfig
    topic: TopicConfig
    group: GroupConfig
    objects: SeglakeConfig
    tiers: SharedTierConfig


def draw_settings(random: Random) -> dict[str, Any]:
    """Draws settings. Most limits are on in some draws and off in others."""
    return {
        "log_count_max": random.choice([0, 0, 2, 4]),
        "log_bytes_max": random.choice([0, 0, 0, 3 * LOG_SEGMENT_BYTES]),
        "log_age_ms_max": random.choice([0, 0, 0, 60_000]),
        "log_archive": random.random() < 0.5,
        "log_spares": random.choice([0, 1]),
        "log_index": random.random() < 0.3,
        "tiering": random.random() < 0.3,
        "manifest": random.random() < 0.93,
        "topic_ack": random.choice(["after_fsync", "after_fsync", "after_write"]),
        "topic_compact": random.random() < 0.3,
        "topic_retention_bytes": random.choice([0, 0, 0, 3 * TOPIC_SEGMENT_BYTES]),
        "topic_retention_ms": random.choice([0, 0, 0, 3_600_000]),
        "producer_ms": random.choice([60_000, 7 * 86_400_000]),
        "lease_ms": random.choice([500, 5_000, 60_000]),
        "delivery_count_max": random.choice([0, 2, 3]),
        "group_ack": random.choice(["after_fsync", "after_fsync", "after_write"]),
        "per_key_order": random.random() < 0.25,
        "compaction_events": random.choice([8, 40, 1000]),
        "if_match_bucket": random.random() < 0.35,
        "message_bytes_max": random.choice([24 * KIB, 24 * KIB, 2_000, 3_040]),
    }


def configs_of(settings: Settings) -> Configs:
    return Configs(
        log=AofConfig(
            segment_bytes=LOG_SEGMENT_BYTES,
            preallocate_segments=settings["log_spares"],
            zero_fill_spares=False,
            enable_sparse_index=settings["log_index"],
            flush=FlushConfig(reserve_bytes=0, flush_ms=5),
            retention=RetentionConfig(
                count_max=settings["log_count_max"],
                bytes_max=settings["log_bytes_max"],
                age_ms_max=settings["log_age_ms_max"],
                archive=settings["log_archive"],
            ),
            manifest=replace(ManifestConfig(), manifest_log_enabled=settings["manifest"]),
            tiers=TierConfig(
                tiering_enabled=settings["tiering"],
                tier0_bytes_max=4 * LOG_SEGMENT_BYTES,
                pause_ms=50,
                wait_ms_max=1000,
            ),
        ),
        topic=TopicConfig(
            segment_bytes=TOPIC_SEGMENT_BYTES,
            index_stride_bytes=KIB,
            batch_bytes_max=8 * KIB,
            request_bytes_max=64 * KIB,
            message_bytes_max=settings.get("message_bytes_max", 24 * KIB),
            reserve_bytes=0,
            ack=settings["topic_ack"],
            sync_ms_max=20,
            manifest_ms=5_000,
            checkpoint_bytes=8 * KIB,
            zero_fill=False,
            retention_ms=settings["topic_retention_ms"],
            retention_bytes=settings["topic_retention_bytes"],
            compact=settings["topic_compact"],
            tombstone_ms=10_000,
            producer_ms=settings["producer_ms"],
        ),
        group=GroupConfig(
            lease_ms=settings["lease_ms"],
            delivery_count_max=settings["delivery_count_max"],
            ack_level=settings["group_ack"],
            sync_ms=20,
            per_key_order=settings["per_key_order"],
            compaction_bytes=KIB,
            compaction_events=settings["compaction_events"],
        ),
        objects=SeglakeConfig(
            segment_bytes=64 * KIB,
            segment_idle_ms=30_000,
            sync_interval_ms=0,
            part_bytes_min=1,
            cache_bytes=0,
            reserve_bytes=0,
            require_if_match_buckets="guarded" if settings["if_match_bucket"] else "",
        ),
        tiers=SharedTierConfig(
            tier0_bytes_max=8 * LOG_SEGMENT_BYTES,
            tier1_bytes_max=8 * LOG_SEGMENT_BYTES,
            compression_level=1,
            retry_count=1,
            retry_ms_first=500,
        ),
    )
