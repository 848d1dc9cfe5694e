"""AOF2: an asynchronous, segmented, append-only log.

One writer appends. A record gets its id at once and becomes durable with the next flush. Readers
see only durable records. Segments are files of one fixed size; the last one is being written, and
the earlier ones are sealed and never change.
"""
