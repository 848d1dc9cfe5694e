"""AOF2: an asynchronous, segmented, append-only log.

One writer appends; records get their id at once and become durable with the next flush. Readers
see what is durable, and nothing else. Segments are files of one fixed size; the last one is
written, the ones before it are sealed and never change.
"""
