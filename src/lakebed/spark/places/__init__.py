"""Where the data is: in files that the tasks share (`path`), or at an HTTP API (`endpoint`).

    place = place_of(options)
    with place.open() as store:
        topic = store.topics.open("orders")
        topic.bounds()

A place is plain and travels to the workers; what is opened of it stays where it was opened.
"""
