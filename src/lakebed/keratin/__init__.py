"""Keratin: topics with partitions. Each partition is an append-only log of messages.

- writing: `topics` (all topics of a root), `topic`, `partition`; `append_requests` (validates what
  the caller passes), `commit_plan` (assigns offsets), `writer`, `segment`, `segment_files`,
  `producers`;
- opening: `recovery`; background work: `retention`, `compaction`, `filler`;
- reading: `reader`, `follower`, `read_only` (from another process), `message_batch`;
- checking: `log_inspection`, `partition_verification`, `repair`;
- bytes: `format`, `headers`, `record_batch` (Kafka's wire format), `compression`.
"""
