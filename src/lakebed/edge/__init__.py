"""Code that the S3 server and the HTTP API server share.

- `worker`: runs blocking calls in threads, and awaits commits without a thread;
- `body_pump`: receives the next piece of a large request body while a thread hashes and writes the
  previous one;
- `read_ahead`: sends one piece of a large response body while a thread reads the next one;
- `budget`: limits concurrent requests, overall and per access key, and the memory they hold;
- `failures`: decides what to log about a failed request, and what to send to its client.

Each server has its own authentication, routing, decoding and rendering.
"""
