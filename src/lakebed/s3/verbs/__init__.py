"""The verbs of S3: one file per subresource, each with a tuple `VERBS` of its declarations.

A file holds its typed requests, their routes, their handlers, the XML they write and parse, their
authorisation actions and whether they write. The router imports every module of this package, so a
new file is served, listed in the reference and covered by the tests that go through all verbs.
"""
