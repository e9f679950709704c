"""Opens the folder `.langgraph_api`, in which `langgraph dev` stores its checkpoints."""
