"""Copy a checkpoint with edits, so that LangGraph resumes from the copy."""
