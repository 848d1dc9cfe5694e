"""The S3 API of the object store: `app` authenticates, routes and runs each request.

`verbs` has one module per S3 subresource, such as `?versioning`, and each declares the operations
that it implements as `verb.Verb`s. `router` builds its routing table from these declarations.
`auth` authenticates requests, `upload_body` receives bodies, `xml_text` and `xml_parser` write and
read XML, and `errors` maps errors of the store to S3 errors.
"""
