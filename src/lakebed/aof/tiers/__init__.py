"""The colder tiers of a log: warm files (Tier 1) and objects (Tier 2).

    Tier 1   a sealed segment as one seekable zstd file: `warm_file` creates and restores it
    Tier 2   the same file as an object: `object_store` is the interface of a store

- `format`, `names`: the binary layout and the names;
- `ranges`: sources of bytes that are read in ranges: a file, memory or an object;
- `seek_table`, `frames`, `seekable_reader`: read parts of a warm file without decompressing it all;
- `obstore_store` (S3 and memory), `folder_store` (a folder on the local disk): the stores;
- `object_store_address`: opens the store at an address; `retrying_store` adds retries to any store,
  and `transfer` copies files to and from any store.
"""
