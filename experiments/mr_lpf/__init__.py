r"""The experiments of the MR-LPF paper, and MR-LPF on boxes."""
