r"""KernelSelfSparring: two posterior draws of one regression spar against each other."""

from experiments.baselines.kernel_self_sparring.strategy import KernelSelfSparring

__all__ = ["KernelSelfSparring"]
