r"""``botorch-pref bench optuna``: samplers for the preferential studies of Optuna Dashboard."""
