"""Bedrock AgentCore Memory with the events of `AgentCoreMemorySaver`."""
