"""The S3 API over the object store: `app` answers requests, `router` says what they ask for.

`operations` are the typed requests, one class a verb, and each family of verbs has a file:
`buckets`, `listings`, `objects`, `copies`, `deletions`, `uploads`. `auth` knows who asks,
`incoming` is a body on its way in, `xml` all documents, `errors` the one table from what went
wrong to what is told.
"""
