"""The server side of HTTP/1.1, independent of any API.

- `server` listens and drains; `connection` runs the protocol for one client;
- `head`, `body` and `chunks` parse requests strictly;
- `responder` calls the handler and writes its response through `response_head`, `body_sender` and
  `outgoing_stream`;
- `request` and `response` are what a handler gets and returns; `refusal` is the response to a
  request that never reaches a handler;
- `limits` bounds the memory and the waiting time that a client can cost.
"""
