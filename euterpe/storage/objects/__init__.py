"""The HTTP protocols of S3, Google Cloud Storage and Azure Blob Storage, over the guarded egress."""
