"""The store: opens a root directory and connects the engines whose files are in it.

    from lakebed.store.store import Store

    with Store.open("data") as store:
        log = store.log("orders")
        log.flush(log.append_record(b"..."))

    with Store.open("data", read_only=True) as store:   # works while another process writes
        for record in store.log("orders").read(): ...

- `store` and `read_only`: the two ways to open a root. One process writes, any number read.
- `version`: the file `store.json`, which keeps an older program from opening a newer store.
- `pins`: ranges of segments or messages that retention must not remove, one file per range.
- `settings`: the sections of `lakebed.toml`.
- `verification`, `repair`, `summary`: check, repair and summarise one log.
- `residency`, `tier_moves`, `tier_verification`: report in which tiers a log's segments are, move
  them between tiers, and verify their copies.
"""
