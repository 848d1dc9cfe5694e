"""HTTP/1.1 as a server speaks it: bytes in, requests out, responses back, nothing of any API.

`server` listens and drains; `connection` is the protocol of one client: it reads heads by `head`,
bodies by `body` and `chunks`, and leaves each request to `responder`, which calls the handler and
writes by `response_head`, `body_sender` and `outgoing_stream`. `request` and `response` are what a
handler gets and gives, `refusal` what is told when there is no handler to ask. `limits` bounds
everything a client can make us hold or wait for.
"""
