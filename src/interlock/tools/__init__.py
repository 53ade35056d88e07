"""Tools and their runner: Python functions, LangChain tools, MCP servers and exact arithmetic."""
