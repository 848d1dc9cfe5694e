"""The manifest log: every change of a segment's tiers, in chunks of binary records.

    manifest/<stream_id>/00000000000000000000.mlog  …  snapshot_00000000000000000001.bin

- `format`, `records`: the bytes, and the sixteen types of records;
- `chunk`, `snapshot`: the two kinds of files, judged and decoded; `paths`: their names; `files`:
  which there are;
- `state`, `transitions`, `index`: the fold of records into what is known of each segment;
  `minimal_records`: the shortest records that give the same;
- `reader`, `replay`: from files to records, and to the state of now or of an earlier moment;
- `journal`, `sink`: writing; `journal_opener`, `repair`: what comes before that;
- `reconciliation`: what the log does not know of the segments on disk.

    journal, replayed = open_journal(disk, folder, …)
    journal.append(SegmentOpened(0, epoch=1), segment_id=0, logical_offset=0)
    journal.commit()
"""
