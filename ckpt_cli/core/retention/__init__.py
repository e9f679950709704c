"""Choose what a purge keeps."""
