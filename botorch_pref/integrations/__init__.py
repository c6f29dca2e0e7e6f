r"""Other packages' loops around this package's models and rules; each imported only by name."""
