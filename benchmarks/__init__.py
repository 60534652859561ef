"""Speed, memory and disk of kbsearch, side by side with plain PostgreSQL in one run. `make bench` runs all of it."""
