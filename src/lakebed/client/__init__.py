"""The client: the classes of the embedded API, for a store that another process has open.

    import lakebed

    with lakebed.connect("data") as store:      # through the socket that its writer serves
        store.topic("orders").append_batch([b"..."]).result()
    with lakebed.connect("https://key:secret@host:9100") as store: ...

- `address`: where to connect, and with which credentials;
- `connection`, `response`, `connection_pool`: HTTP/1.1 on sockets that are kept open;
- `caller`, `retry_schedule`: call an operation of `lakebed.api`, and retry it where that is safe;
- `store`, `topics`, `topic`, `partition`, `group`, `log`, `bucket`, `access_keys`, `pins`: the
  classes that a program uses;
- `producer_pool`: producer ids, so that an append that is sent twice is stored once.
"""
