r"""This package beside others: seconds, ratios, slopes and aims."""
