r"""See :mod:`botorch_pref.strategies.pf_ts`."""

from botorch_pref.strategies.pf_ts import Schedule, as_schedule

__all__ = ["Schedule", "as_schedule"]
