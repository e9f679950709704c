"""Checkpoints of LangGraph's savers and items of its MongoDBStore."""
