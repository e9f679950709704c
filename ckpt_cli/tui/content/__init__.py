"""What the panes show: functions for a `StoreWorker` that return lines."""
