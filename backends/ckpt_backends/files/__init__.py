"""Files on disk: written atomically, opened only if they are regular, locked, temporary."""
