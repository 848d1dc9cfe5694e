"""A store that another process has open, with the classes of the embedded API.

    import lakebed

    with lakebed.connect("data") as store:                     # its socket, if somebody writes
        store.topic("orders").append_batch([b"..."]).result()
    with lakebed.connect("https://key:secret@host:9100") as store: ...

- `address`: what is connected to, and as whom;
- `connection`, `response`, `connection_pool`: HTTP/1.1 on sockets that are kept open;
- `caller`, `retry_schedule`: one call of the table of `lakebed.api`, repeated where that is safe;
- `store`, `topics`, `topic`, `partition`, `group`, `log`, `bucket`, `access_keys`, `pins`: what a
  program uses;
- `producer_pool`: what makes an append that is sent twice be stored once.
"""
