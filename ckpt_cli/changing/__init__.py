"""Apply plans batch by batch; the store's `apply` handles plans of one transaction."""
