"""Opens containers of Azure Cosmos DB (NoSQL) with the items of `CosmosDBSaver`."""
