"""AOF2: an asynchronous, segmented, append-only log.

One writer appends. A record gets its id immediately and becomes durable with the next flush.
Readers see only durable records. Segments are files of one fixed size: the newest is being written;
the others are sealed, or about to be sealed, and their records never change.
"""
