"""AOF2: an asynchronous, segmented, append-only log.

Only one process at a time writes a log. A record gets its id immediately and becomes durable with a
later flush. Readers stop at the end of the durable records. A log consists of segments, files whose
length is fixed when they are created: the newest segment is being written; the others are sealed,
or about to be sealed, and their records never change.
"""
