"""The HTTP API of a store, served on the local socket and on a TCP port.

- `server`: the API as a whole, and where it listens;
- `app`: authenticates, routes and runs a request;
- `router`, `call`, `response_builder`: decode a request, and encode a result;
- `guard`, `key_guard`: authentication; `origin_check`: refuses pages of other sites;
- `limits`: how much may run at once;
- `service`: the store, and threads for blocking calls; `jobs`: long-running work;
- `openapi`: the OpenAPI document of all operations;
- `admin`, `topics`, `groups`, `logs`, …: handlers by family, combined in `handler_table`.
"""
