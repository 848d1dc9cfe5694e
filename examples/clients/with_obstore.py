"""obstore: many objects at a time, by threads. It makes no buckets: `lakebed s3 buckets create`.

Its calls for asyncio work too; a short program that ends right after them may be aborted as it
exits, by a race in how they end, when all is written.
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
