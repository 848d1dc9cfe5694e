#!/usr/bin/env bash
# The AWS command line: create a bucket; upload, list and download an object.
set -euo pipefail

aws s3 mb s3://examples
echo 'figs and dates' | aws s3 cp - s3://examples/aws/fruit.txt
aws s3 ls s3://examples/aws/
aws s3 cp s3://examples/aws/fruit.txt -
