"""The names and descriptions of exported metrics.

Names that are defined by the specifications, or that begin with the name of their engine, are
exported unchanged. Metrics of the manifest log get the prefix `aof2_manifest_log_`, all others the
name of their engine. Durations are exported in seconds. The names of counters end in `_total`, as
the format requires.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from lakebed.base.clock import NS_PER_S

SECONDS: Final = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0)
"""The upper bounds of the histogram buckets of all durations, in seconds."""

MANIFEST_PREFIX: Final = "aof2_manifest_log_"
_NAMED_BY_SPECIFICATIONS: Final = ("would_block_",)
_NS, _SECONDS = "_ns", "_seconds"

_HELP: Final[Mapping[str, str]] = {
    "aof_appended_bytes": "Bytes of records appended to a log.",
    "aof_appended_records": "Records appended to a log.",
    "aof_durable_bytes": "Bytes of a log made durable.",
    "aof_flush_operations": "Flushes of a log.",
    "aof_flush_failures": "Flushes of a log that failed.",
    "aof_flush_metadata_retry_attempts": "Failed steps of a log's upkeep, such as sealing.",
    "aof_flush_metadata_retry_failures": "Failed seals of a log, which then refuses writes.",
    "aof_segment_rollovers": "Rollovers to the next segment of a log.",
    "aof_segments_sealed": "Sealed segments of a log.",
    "aof_segments_retired": "Segments of a log removed by retention.",
    "aof_segments_retired_bytes": "Bytes of log segments removed by retention.",
    "aof_append_latency_seconds": "How long an append to a log took.",
    "aof_flush_latency_seconds": "How long a flush of a log took.",
    "aof_admission_latency_seconds": "How long an append that may wait took to be accepted.",
    "aof_segment_bytes": "Bytes of a segment of a log when it was sealed.",
    "aof_spare_bytes": "Bytes of spare segments prepared for a log.",
    "aof_spare_filled_bytes": "Bytes of spare segments that are already zero-filled.",
    "aof_recovery_duration_seconds": "How long the recovery of a log took when it was opened.",
    "aof_tier0_admissions_refused": "Times that Tier 0 had no room for a new segment of a log.",
    "aof_tier0_activation_queue_depth": "Segments waiting to be hydrated into Tier 0.",
    "aof_tier1_hydration_latency_seconds": "How long the hydration of a segment took.",
    "aof_tier_job_failures": "Moves between tiers that failed.",
    **{f"aof_tier{tier}_segments": f"Segments of a log in Tier {tier}." for tier in range(3)},
    **{f"aof_tier{tier}_bytes": f"Bytes of a log in Tier {tier}." for tier in range(3)},
    "aof_tier2_retries": "Retried uploads, downloads and deletes in Tier 2.",
    MANIFEST_PREFIX
    + "manifest_chunks_active": "Chunk files of a manifest log, including the open one.",
    MANIFEST_PREFIX + "manifest_replay_seconds": "How long the replay of a manifest log took.",
    MANIFEST_PREFIX + "manifest_crc_error_count": "Checksum errors in a manifest log.",
    MANIFEST_PREFIX + "manifest_snapshot_age_seconds": "Age of a manifest log's snapshot.",
    MANIFEST_PREFIX + "manifest_records": "Records appended to a manifest log.",
    MANIFEST_PREFIX + "manifest_commits": "Commits of a manifest log.",
    MANIFEST_PREFIX + "manifest_rotations": "Sealed chunks of a manifest log.",
    MANIFEST_PREFIX + "manifest_snapshots": "Snapshots taken of a manifest log.",
    MANIFEST_PREFIX
    + "manifest_journal_lag_bytes": "Bytes of a manifest log that are not durable yet.",
    "store_damage_unacknowledged": "Recorded losses that are not acknowledged yet.",
    "seglake_objects": "Objects visible in listings.",
    "seglake_segments": "Segment files of the object store.",
    "seglake_bytes_live": "Bytes of all object versions.",
    "seglake_live_manifests": "Manifests of existing versions, including delete markers.",
    "seglake_manifests": "Manifests, including those whose files are not removed yet.",
    "stroma_folds": "Compactions of a group's state into a snapshot.",
    "stroma_bytes_written": "Bytes written for the state of a group.",
    "stroma_messages_damaged": "Messages that a group skipped because they are damaged in the log.",
}
_WORDS: Final[Mapping[str, str]] = {
    "commit_items": "Changes committed by {engine}.",
    "commit_bytes": "Bytes committed by {engine}.",
    "commit_failures": "Commits of {engine} that failed.",
    "commit_duration": "How long a commit of {engine} took.",
}


class Exported(NamedTuple):
    """The exported name and description of a metric. Its values are divided by `scale`."""

    name: str
    help: str
    scale: int


def exported(engine: str, name: str) -> Exported:
    """Returns how the metric `name` of an engine is exported."""
    scale = 1
    if name.endswith(_NS):
        name, scale = name.removesuffix(_NS) + _SECONDS, NS_PER_S
    if name.startswith("manifest_"):
        full = MANIFEST_PREFIX + name
    elif name.startswith((f"{engine}_", *_NAMED_BY_SPECIFICATIONS)):
        full = name
    else:
        full = f"{engine}_{name}"
    return Exported(full, _help(engine, name, full), scale)


def _help(engine: str, name: str, full: str) -> str:
    if full in _HELP:
        return _HELP[full]
    template = _WORDS.get(name.removesuffix(_SECONDS))
    if template is not None:
        return template.format(engine=engine)
    if name.startswith("would_block_"):
        return f"Appends refused because they would wait ({name.removeprefix('would_block_')})."
    return f"{name.replace('_', ' ').capitalize()} of {engine}."
