#!/usr/bin/env bash
# rclone, configured with variables; rclone.conf has settings of the same names.
set -euo pipefail

export RCLONE_CONFIG_LAKEBED_TYPE=s3
export RCLONE_CONFIG_LAKEBED_PROVIDER=Other
export RCLONE_CONFIG_LAKEBED_ENV_AUTH=true
export RCLONE_CONFIG_LAKEBED_ENDPOINT="$AWS_ENDPOINT_URL"

folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
echo 'figs and dates' >"$folder/fruit.txt"

rclone sync "$folder" lakebed:examples/rclone
rclone check "$folder" lakebed:examples/rclone
rclone cat lakebed:examples/rclone/fruit.txt
