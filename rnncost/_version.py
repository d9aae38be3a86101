"""The release of rnncost, read by setup.cfg as well."""

__version__ = "0.1.0"
