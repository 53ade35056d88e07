"""The demo shop that desk and analyst share: its products, its articles and its handbook, with the tools that look in them."""
