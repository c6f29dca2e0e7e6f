r"""The experiments of the POP-BO paper."""
