"""The layout of `DynamoDBSaver` of `langgraph-checkpoint-aws`."""
