"""The manifest log: a log's record of every change of its segments and of the tiers they are in.

    manifest/<stream_id>/00000000000000000000.mlog  …  snapshot_00000000000000000001.bin

- `format`, `records`: the binary layout and the sixteen types of records;
- `chunk`, `snapshot`: decode and check the two kinds of files; `paths`: their names; `files`: their
  listing;
- `state`, `transitions`, `index`: compute the state of each segment from the records;
  `minimal_records`: the fewest records that give the same state;
- `reader`, `replay`: read records from files, and replay them up to now or an earlier moment;
- `journal`, `sink`: write records; `journal_opener`, `repair`: run before the first write;
- `reconciliation`: finds the records that are missing for the segments on disk.

    journal, replayed = open_journal(disk, folder, …)
    journal.append(SegmentOpened(0, epoch=1), segment_id=0, logical_offset=0)
    journal.commit()
"""
