"""Opens folders of `ObjectStorageSaver`; `buckets` opens those of S3."""
