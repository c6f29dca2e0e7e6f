r"""Measurements: speed, the papers' experiments, and what chose the defaults."""
