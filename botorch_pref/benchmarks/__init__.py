r"""Measurements: speed, and the closed loops that chose the default model."""
