"""The guided run behind `lakebed demo`: a node in a scratch folder, and counts that must agree.

    summary = lakebed.node.demo.tour.run(scratch=None, watcher=watcher, seed=1)
    summary.is_good

A module is a station, or what stations share:

1. `node_process` starts `lakebed serve` on free ports, kills it, starts it again, and stops it;
2. `events` makes events, produces them to a topic, and keeps what was acknowledged;
3. `group` has a consumer group settle some of them, and gives one back, which comes again;
4. `tiers` rolls a log through all three tiers and reads it back from the last one;
5. `landing` makes a Delta table of the topic with Spark, on the node's own S3, and queries it;
6. `crash` kills the node under a producer, and starts it again;
7. `verification` checks every checksum of the store when the node has stopped;
8. `power_cut` cuts the power of a simulated disk at every I/O step;
9. `checks` and `summary` are what it all comes to, `plot` draws it, and `tour` walks through it.
"""
