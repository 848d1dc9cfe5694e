"""The S3 API over the object store: `app` authenticates, routes and runs a request.

`verbs` has one file per subresource, and `verb` what such a file declares; `router` derives its
tables from them. `auth` authenticates, `upload_body` receives a body, `xml_text` and `xml_parser`
are what the documents share, `errors` is the one table from errors of the store to those of S3.
"""
