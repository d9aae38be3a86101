"""Readers for recurrent layers of other libraries, found by name: none is imported here."""
