"""The filter language that selects threads: its fields, grammar and evaluation."""
