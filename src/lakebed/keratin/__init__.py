"""Keratin: topics with partitions, an append-only log of messages in each.

- writing: `topics` (all of a root), `topic`, `partition`; `append_requests` (what a caller hands
  in), `commit_plan` (who gets which offset), `writer`, `segment`, `segment_files`, `producers`;
- opening: `recovery`; upkeep: `retention`, `compaction`, `filler`;
- reading: `reader`, `follower`, `read_only` (from another process), `message_batch`;
- judging: `log_inspection`, `partition_verification`, `repair`;
- bytes: `format`, `headers`, `record_batch` (as Kafka's clients send them), `compression`.
"""
