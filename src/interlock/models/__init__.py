"""Models: LangChain chat models, a local model, offline rules, scripts and a stub."""
