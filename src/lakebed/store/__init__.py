"""The store: opens a root and joins the engines in it.

    from lakebed.store.store import Store

    with Store.open("data") as store:
        log = store.log("orders")
        log.flush(log.append_record(b"..."))

    with Store.open("data", read_only=True) as store:        # also beside a writer
        for record in store.log("orders").read(): ...

- `store` and `read_only`: the two ways to open a root; one process writes, any number reads;
- `version`: the file `store.json`, by which a newer store is refused;
- `pins`: ranges that must outlive retention, one file each;
- `settings`: the sections of `lakebed.toml`;
- `verification`, `repair`, `summary`: what the command line tells about a log;
- `residency`, `tier_moves`, `tier_verification`: where its segments are, moved there, and whole.
"""
