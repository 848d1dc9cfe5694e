"""The colder tiers of a log: warm files (Tier 1) and objects (Tier 2).

    Tier 1   a sealed segment as one seekable zstd file: `warm_file` creates and restores it
    Tier 2   the same file as an object: `object_store` is the interface of a store

- `format`, `names`: the binary layout and the names;
- `ranges`: bytes that can be read in ranges, of a file or an object;
- `seek_table`, `frames`, `seekable_reader`: read a warm file at the cost of a few frames;
- `obstore_store` (S3 and memory), `folder_store` (a folder on the local disk): the stores;
- `object_store_address`: opens the store that an address names; `retrying_store`, `transfer`: work
  with any store.
"""
