"""What the S3 server and the HTTP API server share.

- `worker`: threads for blocking calls, and commits that are awaited without a thread;
- `body_pump`: receives a large body while the previous piece is hashed and written in a thread;
- `read_ahead`: sends a large body while the next piece is read in a thread;
- `budget`: limits on concurrent requests, overall and per access key, and on the memory they hold;
- `failures`: decides what is logged about a failed request, and what its client is sent.

Authentication, routing, decoding and rendering stay in each server.
"""
