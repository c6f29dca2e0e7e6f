r"""The experiments of the COBOL paper."""
