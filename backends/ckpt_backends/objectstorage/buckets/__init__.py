"""Opens buckets of S3 with the objects of `ObjectStorageSaver`."""
