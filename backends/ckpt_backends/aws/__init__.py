"""Opens layouts in services of AWS: DynamoDB tables, and memories of Bedrock AgentCore."""
