r"""A sampler for the preferential studies of Optuna Dashboard (extra ``optuna``)."""

try:
    import optuna  # noqa: F401
    import optuna_dashboard  # noqa: F401
except ImportError as error:
    raise ImportError(
        f"botorch_pref.integrations.optuna needs {error.name}, which the extra `optuna` installs: "
        "pip install 'botorch-pref[optuna]'"
    ) from error

from botorch_pref.integrations.optuna.sampler import PreferentialSampler

__all__ = ["PreferentialSampler"]
