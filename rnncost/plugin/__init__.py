"""What the pytest plugin does once a marker or an option asks for it."""
