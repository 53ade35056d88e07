"""Who runs a tool, and the tools: arithmetic, a catalogue, a knowledge base, functions of your own, MCP servers."""
