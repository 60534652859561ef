"""Scripts for working on kbsearch; not part of the package."""
