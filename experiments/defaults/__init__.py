r"""The closed loops that chose the defaults."""
