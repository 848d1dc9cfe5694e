"""The manifest log: records every change of a segment's tiers, in chunks of binary records.

    manifest/<stream_id>/00000000000000000000.mlog  …  snapshot_00000000000000000001.bin

- `format`, `records`: the binary layout and the sixteen types of records;
- `chunk`, `snapshot`: decode and check the two kinds of files; `paths`: their names; `files`: their
  listing;
- `state`, `transitions`, `index`: fold the records into the state of each segment;
  `minimal_records`: the fewest records that fold to the same state;
- `reader`, `replay`: read records from files, and replay them up to now or an earlier moment;
- `journal`, `sink`: writing; `journal_opener`, `repair`: what runs before that;
- `reconciliation`: finds what the manifest log lacks about the segments on disk.

    journal, replayed = open_journal(disk, folder, …)
    journal.append(SegmentOpened(0, epoch=1), segment_id=0, logical_offset=0)
    journal.commit()
"""
