"""Authentication of S3 requests with SigV4: in headers, in presigned URLs, and in chunked bodies.

- `authenticator` accepts or refuses a request; `claims` reads the signature that the request has,
  and `sigv4` computes the signature that it should have.
- `chunked` decodes `aws-chunked` bodies and checks the signatures of their chunks.
- `first_credentials` provides credentials for a store that has no access keys yet.
- `replays` detects repeated signatures; `redaction` hides secrets in logged queries.
"""
