"""Under which names counters are exported, and what is said of them.

The specifications name some: those stay, what belongs to the manifest log gets the prefix of its
namespace (`aof2_manifest_log_`), and everything else that of its engine. Durations are exported in
seconds, whatever they are counted in. A counter has `_total` behind its name, as the format wants.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from lakebed.base.clock import NS_PER_S

SECONDS: Final = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0)
"""The buckets of all durations."""

MANIFEST_PREFIX: Final = "aof2_manifest_log_"
_NAMED_BY_SPECIFICATIONS: Final = ("would_block_",)
_NS, _SECONDS = "_ns", "_seconds"

_HELP: Final[Mapping[str, str]] = {
    "aof_appended_bytes": "Bytes of records that were appended to a log.",
    "aof_appended_records": "Records that were appended to a log.",
    "aof_durable_bytes": "Bytes of a log that were made durable.",
    "aof_flush_operations": "Flushes of a log.",
    "aof_flush_failures": "Flushes of a log that failed.",
    "aof_flush_metadata_retry_attempts": "Tries to write a log's metadata again.",
    "aof_flush_metadata_retry_failures": "Writes of a log's metadata that were given up.",
    "aof_segment_rollovers": "Segments of a log that were followed by another.",
    "aof_segments_sealed": "Segments of a log that were sealed.",
    "aof_segments_retired": "Segments of a log that retention removed.",
    "aof_segments_retired_bytes": "Bytes of the segments of a log that retention removed.",
    "aof_append_latency_seconds": "How long an append to a log took.",
    "aof_flush_latency_seconds": "How long a flush of a log took.",
    "aof_admission_latency_seconds": "How long an append waited to be let in.",
    "aof_segment_bytes": "Bytes of a segment of a log when it was sealed.",
    "aof_spare_bytes": "Bytes of segments of a log that are prepared and not in use.",
    "aof_spare_filled_bytes": "Of these, bytes that are written ahead.",
    "aof_recovery_duration_seconds": "How long the recovery of a log took when it was opened.",
    "aof_tier0_admissions_refused": "Segments that Tier 0 had no room for.",
    "aof_tier0_activation_queue_depth": "Segments that wait to come back to Tier 0.",
    "aof_tier1_hydration_latency_seconds": "How long it took to bring a segment back.",
    "aof_tier_job_failures": "Moves between tiers that failed.",
    **{f"aof_tier{tier}_segments": f"Segments of a log in Tier {tier}." for tier in range(3)},
    **{f"aof_tier{tier}_bytes": f"Bytes of a log in Tier {tier}." for tier in range(3)},
    "aof_tier2_retries": "Uploads, downloads and deletes in Tier 2 that were tried again.",
    MANIFEST_PREFIX + "manifest_chunks_active": "Chunk files of a manifest log, the open one too.",
    MANIFEST_PREFIX + "manifest_replay_seconds": "How long the replay of a manifest log took.",
    MANIFEST_PREFIX + "manifest_crc_error_count": "Checksums in a manifest log that were wrong.",
    MANIFEST_PREFIX + "manifest_snapshot_age_seconds": "Age of a manifest log's snapshot.",
    MANIFEST_PREFIX + "manifest_records": "Records that were added to a manifest log.",
    MANIFEST_PREFIX + "manifest_commits": "Times that records of a manifest log were made durable.",
    MANIFEST_PREFIX + "manifest_rotations": "Chunks of a manifest log that were sealed.",
    MANIFEST_PREFIX + "manifest_snapshots": "Snapshots that were taken of a manifest log.",
    MANIFEST_PREFIX + "manifest_journal_lag_bytes": "Bytes of a manifest log not yet durable.",
    "store_damage_unacknowledged": "Losses on record that are not acknowledged.",
    "seglake_objects": "Objects that listings show.",
    "seglake_segments": "Files that hold the bodies of objects.",
    "seglake_bytes_live": "Bytes of all versions of objects that can be read.",
    "seglake_live_manifests": "Manifests of versions that are there, delete markers too.",
    "seglake_manifests": "Manifests, with those whose files are still to be removed.",
    "stroma_folds": "Times that the state of a group was folded into a snapshot.",
    "stroma_bytes_written": "Bytes written of the state of a group.",
    "stroma_messages_damaged": "Messages that a group settled because they are damaged in the log.",
}
_WORDS: Final[Mapping[str, str]] = {
    "commit_items": "Changes that were committed by {engine}.",
    "commit_bytes": "Bytes that were committed by {engine}.",
    "commit_failures": "Commits of {engine} that failed.",
    "commit_duration": "How long a commit of {engine} took.",
}


class Exported(NamedTuple):
    """`scale`: what a counted value is divided by."""

    name: str
    help: str
    scale: int


def exported(engine: str, name: str) -> Exported:
    """How a counter of an engine is exported."""
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
        return f"Appends that would have had to wait: {name.removeprefix('would_block_')}."
    return f"{name.replace('_', ' ').capitalize()} of {engine}."
