r"""``python -m experiments optuna``: samplers for the preferential studies of Optuna Dashboard."""
