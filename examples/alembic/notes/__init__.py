"""The application: notes of its users."""
