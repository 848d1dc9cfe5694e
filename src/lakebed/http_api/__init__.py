"""The HTTP API of a store, for the local socket and for a TCP port.

It is given the open store, and imports none of it.

- `server`: the API as a whole, and where it listens;
- `app`: who asks is made sure of, the call found in the table, carried out and answered;
- `router`, `call`, `response_builder`: from a request to what was called, and from a result to a
  response;
- `guard`, `key_guard`: who may ask; `limits`, `budget`: how much at once;
- `service`: the store, and threads for what blocks; `work`: what takes long;
- `openapi`: the table, described;
- `admin`, `topics`, `groups`, `logs`, … : the handlers of each family, joined in `handler_table`.
"""
