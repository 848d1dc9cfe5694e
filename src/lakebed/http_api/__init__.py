"""The HTTP API of a store, served on the local socket and on a TCP port.

- `server`: the API as a whole, and the addresses where it listens;
- `app`: authenticates, routes and runs a request;
- `router`, `call`, `response_builder`: decode a request, and encode a result;
- `guard`, `key_guard`: authentication; `origin_check`: refuses requests of other sites' web pages;
- `limits`: how many requests may run, and how much memory and how many threads they may use;
- `service`: the store, and threads for blocking calls; `jobs`: long-running work;
- `openapi`: the OpenAPI document of all operations;
- `admin`, `topics`, `groups`, `logs`, …: the handlers, combined in `app`.
"""
