"""Reads and changes the documents of `FirestoreSaver`."""
