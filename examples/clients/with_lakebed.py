"""Lakebed's own client: the classes of an embedded store, over the HTTP API.

With the path of a root instead of the URL, the same code opens the store in this process, or uses
the socket of the process that has it open.
"""

import os

import lakebed

with lakebed.connect(
    os.environ["LAKEBED_URL"],
    access_key=os.environ["AWS_ACCESS_KEY_ID"],
    secret_key=os.environ["AWS_SECRET_ACCESS_KEY"],
) as store:
    topic = store.topic("fruit", partitions=3)
    topic.append_batch([b"figs", b"dates"]).result()  # durable, and stored once
    group = topic.group("example")
    for message in group.lease(max_messages=100, lease_ms=30_000):
        print(message.partition, message.offset, message.value.decode())
        group.ack(message)

    log = store.log("audit")
    log.flush(log.append_record(b"ate two figs"))
    print([record.payload.decode() for record in log.read()][-1])

    bucket = store.bucket("examples")
    bucket.put("lakebed/fruit.txt", b"figs and dates", content_type="text/plain")
    print(bucket.read("lakebed/fruit.txt").decode())
