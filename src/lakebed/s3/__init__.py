"""The S3 API of the object store: `app` authenticates, routes and runs a request.

`verbs` has one file per subresource; `verb` defines what such a file declares, and `router` builds
its tables from these declarations. `auth` authenticates requests, `upload_body` receives bodies,
`xml_text` and `xml_parser` write and read XML, and `errors` maps errors of the store to S3 errors.
"""
