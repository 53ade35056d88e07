"""Providers: how the adapter behind each capability is made from settings, and what `interlock doctor` says about it.

provider.py     what a provider is: for the library and for agents alike
library.py      the table of the library's own providers; models.py, stores.py and tools.py have their functions
resolver.py     finds the provider of a capability, opens it once, and closes everything at the end
"""
