r"""Posterior draws as functions, registered with ``botorch.sampling.pathwise``."""

from botorch_pref.sampling.pathwise import draw_posterior_paths, draw_prior_paths

__all__ = ["draw_posterior_paths", "draw_prior_paths"]
