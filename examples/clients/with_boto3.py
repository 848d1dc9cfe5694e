"""boto3: endpoint, region and key come from the environment, as for Amazon's S3."""

import boto3

s3 = boto3.client("s3")
s3.create_bucket(Bucket="examples")
s3.put_object(Bucket="examples", Key="boto3/fruit.txt", Body=b"figs and dates")

# If many clients write with this condition, one succeeds; the others get PreconditionFailed.
try:
    s3.put_object(Bucket="examples", Key="boto3/once", Body=b"first", IfNoneMatch="*")
except s3.exceptions.ClientError as error:
    print(error.response["Error"]["Code"])

print(s3.get_object(Bucket="examples", Key="boto3/fruit.txt")["Body"].read().decode())
for page in s3.get_paginator("list_objects_v2").paginate(Bucket="examples", Prefix="boto3/"):
    for item in page["Contents"]:
        print(item["Key"], item["Size"])
