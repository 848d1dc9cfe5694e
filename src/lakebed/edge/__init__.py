"""What the serving wires share, whatever they speak: S3 and the HTTP API stand on it.

- `worker`: threads for what blocks, and commits that are awaited without one;
- `body_pump`: a large body, received while the piece before is hashed and written in a thread;
- `read_ahead`: a large body, sent while the piece after is read in a thread;
- `budget`: how many requests are under way, in all and of one access key, and what they hold;
- `failures`: what is logged of a request that failed, and what its client learns.

A wire keeps what is its own: how a request is authenticated, routed, decoded and answered.
"""
