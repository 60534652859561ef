"""A help desk whose articles can be searched."""
