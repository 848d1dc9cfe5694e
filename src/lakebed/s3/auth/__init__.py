"""Who asks, and whether the bytes are theirs: SigV4 in headers, in queries, and along a body.

- `authenticator` decides; `claims` is what a request says of who signed it, `sigv4` the arithmetic;
- `chunked` decodes bodies that are signed, or only framed, chunk by chunk;
- `key_ring` knows the secrets, `first_credentials` where the first ones come from;
- `replays` and `inflight` bound what one key can do; `redaction` is for logs.
"""
