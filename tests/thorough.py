"""What `make check` leaves to `make test`, by files: many cases of one thing, or the same by wire.

Of each of these folders `make check` runs the files named beside it; of the others it runs all
but the files listed, and but what is marked in its own file.
"""

from __future__ import annotations

from typing import Final

QUICK_OF: Final = {
    "http_api": {
        "test_app.py",
        "test_budget.py",
        "test_call.py",
        "test_router.py",
        "test_topics.py",
    },
    "client": {"test_address.py", "test_caller.py", "test_groups.py", "test_response.py"},
    "cli": {"test_failure.py", "test_interrupts.py", "test_topic_lines.py", "test_aof_lines.py"},
    "s3": {"test_buckets.py", "test_errors.py", "test_checksum_headers.py", "test_deletions.py"},
}

FILES: Final = {
    "aof/manifest/test_records.py",
    "aof/test_follower.py",
    "aof/test_manifest_recorder.py",
    "aof/tiers/test_object_store.py",
    "aof/tiers/test_tier_scheduler.py",
    "aof/tiers/test_transfer.py",
    "base/files/test_crash_of_replace.py",
    "base/simulation/test_databases.py",
    "keratin/test_compaction.py",
    "keratin/test_compression.py",
    "keratin/test_filler.py",
    "keratin/test_reader.py",
    "keratin/test_recovery_of_files.py",
    "keratin/test_append_requests.py",
    "keratin/test_retention.py",
    "keratin/test_rolling.py",
    "kernels/test_find.py",
    "kernels/test_hostile.py",
    "kernels/test_selection.py",
    "seglake/meta/test_schema.py",
    "seglake/test_api_keys.py",
    "seglake/test_bloom.py",
    "seglake/test_keys.py",
    "seglake/test_listing.py",
    "seglake/test_manifest_cache.py",
    "seglake/test_multipart.py",
    "seglake/test_objects.py",
    "seglake/test_segment_file.py",
    "seglake/test_segment_walk.py",
    "seglake/test_versioning.py",
    "store/test_batch_commit.py",
    "store/test_batch_commit_staged.py",
    "store/test_dead_letters.py",
}


def is_thorough(path: str) -> bool:
    """`path` is one below `tests`."""
    folder, _, name = path.rpartition("/")
    return path in FILES or (folder in QUICK_OF and name not in QUICK_OF[folder])
