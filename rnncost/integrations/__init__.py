"""The same counts inside tools that people already use. Import the module of the tool."""
