"""Authentication of S3 requests with SigV4: in headers, in presigned URLs, and in chunked bodies.

- `authenticator` accepts or refuses a request; `claims` reads its signature, `sigv4` computes it.
- `chunked` decodes bodies that are sent, and maybe signed, in chunks.
- `first_credentials` finds or creates the first credentials; `seglake.key_ring` caches keys.
- `replays` detects repeated signatures; `redaction` hides secrets in logged queries.
"""
