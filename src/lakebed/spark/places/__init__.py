"""Where the data is: in files that the tasks share (`path`), or behind an HTTP API (`endpoint`).

    place = place_of(options)
    with place.open() as opened:
        topic = opened.topic("orders")
        topic.bounds(0)

A place is plain and travels to the workers; whatever is opened of it stays where it was opened.
"""
