"""Opens DeerFlow's memory: facts about its users, in files of its folder."""
