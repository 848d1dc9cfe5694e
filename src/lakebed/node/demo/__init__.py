"""The guided tour of `lakebed demo`: runs a node in a scratch folder and checks that nothing is
lost.

    summary = lakebed.node.demo.tour.run(scratch=None, watcher=watcher, seed=1)
    summary.is_good

Each module is one station of the tour, or is shared by several:

1. `node_process` starts `lakebed serve` on free ports, kills it, starts it again, and stops it;
2. `events` makes events, produces them to a topic, and records which were acknowledged;
3. `group` acks some of the messages with a consumer group; the first is nacked and delivered again;
4. `tiers` rolls a log through all three tiers and reads it back from the last one;
5. `landing` writes the topic to a Delta table with Spark, on the node's own S3, and queries it;
6. `crash` kills the node while a producer is running, and starts it again;
7. `verification` checks every checksum of the store after the node has stopped;
8. `power_cut` cuts the power of a simulated disk at every I/O step;
9. `checks` and `summary` hold the results, `plot` draws them, and `tour` runs the stations.
"""
