"""A shop whose products are ranked by kbsearch."""
