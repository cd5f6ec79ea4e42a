"""The version, where every layer may read it and the build does too."""

__version__ = "0.1.0"
