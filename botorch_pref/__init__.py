"""Bayesian optimisation from people's judgements, for BoTorch and GPyTorch.

The names that users call live in the submodules, for example
`botorch_pref.models.PreferenceGP`; importing the package itself loads none of them.
"""

__version__ = "0.1.0"
