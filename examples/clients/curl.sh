#!/usr/bin/env bash
# curl: the HTTP API takes the access key as it is (HTTP Basic); for S3 curl signs, from 7.88 on.
set -euo pipefail

# The key is given by a file that only curl reads: a command line can be seen by others.
ask() {
    curl --silent --show-error --fail-with-body \
        --config <(printf 'user = "%s:%s"\n' "$AWS_ACCESS_KEY_ID" "$AWS_SECRET_ACCESS_KEY") "$@"
    echo
}

json='Content-Type: application/json'
lines='Content-Type: application/x-ndjson'
ask "$LAKEBED_URL/v1/topics/examples" --request PUT --header "$json" --data '{"partitions": 1}'
ask "$LAKEBED_URL/v1/topics/examples/messages" --header "$lines" --data '{"key": "ada", "value": "figs"}'
ask "$LAKEBED_URL/v1/topics/examples/partitions/0/messages?offset=0" --header 'Accept: application/x-ndjson'

signed=(--aws-sigv4 "aws:amz:$AWS_DEFAULT_REGION:s3" --header 'x-amz-content-sha256: UNSIGNED-PAYLOAD')
ask "$AWS_ENDPOINT_URL/examples" "${signed[@]}" --request PUT
ask "$AWS_ENDPOINT_URL/examples/curl/fruit.txt" "${signed[@]}" --request PUT --data 'figs and dates'
ask "$AWS_ENDPOINT_URL/examples/curl/fruit.txt" "${signed[@]}"
