"""The client: the classes of the embedded API, for a store that another process has open.

    import lakebed

    with lakebed.connect("data") as store:                     # its socket, if it is open elsewhere
        store.topic("orders").append_batch([b"..."]).result()
    with lakebed.connect("https://key:secret@host:9100") as store: ...

- `address`: where to connect, and with which credentials;
- `connection`, `response`, `connection_pool`: HTTP/1.1 on sockets that are kept open;
- `caller`, `retry_schedule`: one operation of `lakebed.api`, retried where that is safe;
- `store`, `topics`, `topic`, `partition`, `group`, `log`, `bucket`, `access_keys`, `pins`: what a
  program uses;
- `producer_pool`: producer ids, so that an append that is sent twice is stored once.
"""
