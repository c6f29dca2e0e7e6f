r"""The experiments of the PF-TS paper."""
