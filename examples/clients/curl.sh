#!/usr/bin/env bash
# curl: the HTTP API takes the access key with HTTP Basic; for S3, curl 7.88 or newer signs requests.
set -euo pipefail

# Pass the key in a file that only curl reads: other users can see command lines.
request() {
    curl --silent --show-error --fail-with-body \
        --config <(printf 'user = "%s:%s"\n' "$AWS_ACCESS_KEY_ID" "$AWS_SECRET_ACCESS_KEY") "$@"
    echo
}

json='Content-Type: application/json'
lines='Content-Type: application/x-ndjson'
request "$LAKEBED_URL/v1/topics/examples" --request PUT --header "$json" --data '{"partitions": 1}'
request "$LAKEBED_URL/v1/topics/examples/messages" --header "$lines" --data '{"key": "ada", "value": "figs"}'
request "$LAKEBED_URL/v1/topics/examples/partitions/0/messages?offset=0" --header 'Accept: application/x-ndjson'

signed=(--aws-sigv4 "aws:amz:$AWS_DEFAULT_REGION:s3" --header 'x-amz-content-sha256: UNSIGNED-PAYLOAD')
request "$AWS_ENDPOINT_URL/examples" "${signed[@]}" --request PUT
request "$AWS_ENDPOINT_URL/examples/curl/fruit.txt" "${signed[@]}" --request PUT --data 'figs and dates'
request "$AWS_ENDPOINT_URL/examples/curl/fruit.txt" "${signed[@]}"
