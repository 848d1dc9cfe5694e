"""The server side of HTTP/1.1, independent of any API.

- `server` accepts connections and shuts down gracefully; `connection` runs the protocol for one
  client;
- `head`, `body` and `chunks` parse requests strictly;
- `responder` calls the handler and writes its response through `response_head`, `body_sender` and
  `outgoing_stream`;
- `request` and `response` are what a handler gets and returns; `refusal` is the server's own error
  response, for example to a malformed request;
- `limits` bounds the memory that a client can use and the time that it can make the server wait.
"""
