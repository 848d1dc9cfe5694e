"""The colder tiers of a log: warm files (Tier 1) and objects (Tier 2).

    Tier 1   a sealed segment as one seekable zstd file: `warm_file` makes and restores it
    Tier 2   the same file as an object: `object_store` is what is asked of a store

- `format`, `names`: the bytes and the names;
- `ranges`: bytes that can be read in ranges, a file's or an object's;
- `seek_table`, `frames`, `seekable_reader`: reading a warm file at the cost of a few frames;
- `obstore_store` (S3 and memory), `folder_store` (a folder on our own disk): the stores;
- `object_store_address`: which store an address means; `retrying_store`, `transfer`: used with any
  of them.
"""
