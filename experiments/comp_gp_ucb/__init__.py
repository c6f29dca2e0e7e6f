r"""The experiments of the COMP-GP-UCB paper."""
