"""The tabs of the inspector: functions for a `StoreWorker` that return lines."""
