"""The S3 operations: one module per subresource, each with its declarations in a tuple `VERBS`.

A module holds the typed requests of its operations, their routes, handlers and XML documents, and
declares the permissions that AWS requires for them and whether they write. The router imports every
module of this package, so the operations of a new module are served, listed in the reference and
covered by the tests of all verbs without further changes.
"""
