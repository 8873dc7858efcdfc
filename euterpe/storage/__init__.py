"""Storage of sources and outputs: S3, Google Cloud Storage, Azure, signed URLs and `file://` folders."""
