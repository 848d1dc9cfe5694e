"""obstore: many objects at a time, with threads. It does not create the bucket `examples`.

Its asyncio calls work as well. A short program that ends right after them can be aborted on exit,
by a race in their shutdown, after everything is written.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import obstore
from obstore.store import S3Store

store = S3Store(
    "examples",
    endpoint=os.environ["AWS_ENDPOINT_URL"],
    region=os.environ["AWS_DEFAULT_REGION"],
    access_key_id=os.environ["AWS_ACCESS_KEY_ID"],
    secret_access_key=os.environ["AWS_SECRET_ACCESS_KEY"],
    client_options={"allow_http": True},  # for a node without a certificate
)

names = [f"obstore/{number:03}.txt" for number in range(100)]
with ThreadPoolExecutor(8) as pool:
    list(pool.map(partial(obstore.put, store, file=b"figs"), names))
print(len(obstore.list(store, "obstore").collect()), "objects")
print(bytes(obstore.get(store, names[-1]).bytes()).decode())
