"""What the embedded store, the HTTP API and the client share: calls, values and errors.

- `operation` and `operation_table`: the table of all calls. The HTTP API uses it for routing and
  for its OpenAPI document, and the client uses its entries for requests.
- `topics`, `groups`, `logs`, `manifests`, `objects`, `stored_objects`, `pins`, `access_keys`,
  `damage`, `admin`: the calls of each kind, with their requests and responses.
- `plans`: the calls that resolve, pin and split the ranges of large reads.
- `jobs` and `job_reports`: long-running work, and its reports as documents.
- `media`: encodes values as JSON or MessagePack.
- `problems`: converts errors to problem documents, and these back to the same errors.
- `surface` and `read_surface`: the Protocols that the embedded and the remote classes implement.
"""
