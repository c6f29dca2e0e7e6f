r"""The links to 60 digits, by mpmath, and their expectations by quadrature.

With :math:`x = s h`, :math:`g(h) = \log \mu(h)` and the link scale :math:`s`:

- logit: :math:`g = -\log(1 + e^{-x})`, and with :math:`p = 1 / (1 + e^{-x})`,
  :math:`q = 1 / (1 + e^{x})`: :math:`g' = s q`, :math:`g'' = -s^2 p q`,
  :math:`g''' = -s^3 p q (q - p)`.
- probit: :math:`g = \log \Phi(x)`, and with :math:`r = \varphi(x) / \Phi(x)`:
  :math:`g' = s r`, :math:`g'' = -s^2 r (x + r)`,
  :math:`g''' = s^3 r ((x + r)(x + 2 r) - 1)`.
"""

from __future__ import annotations

import math

import mpmath
import numpy as np
from mpmath import mpf
from scipy import special

DIGITS = 60


def probability(h: float, link: str, scale: float = 1.0) -> mpf:
    """Return ``mu(h)``, the probability that the first item wins."""
    with mpmath.workdps(DIGITS):
        return _probability(mpf(scale) * mpf(h), link)


def log_cdf_derivatives(h: float, link: str, scale: float = 1.0) -> tuple[mpf, mpf, mpf, mpf]:
    """Return ``g = log mu`` and its first three derivatives with respect to ``h``."""
    with mpmath.workdps(DIGITS):
        s = mpf(scale)
        x = s * mpf(h)
        if link == "logit":
            p, q = _probability(x, link), _probability(-x, link)
            return (_log(p, q), s * q, -(s**2) * p * q, -(s**3) * p * q * (q - p))
        p, q = _probability(x, link), _probability(-x, link)
        r = mpmath.npdf(x) / p
        third = s**3 * r * ((x + r) * (x + 2 * r) - 1)
        return (_log(p, q), s * r, -(s**2) * r * (x + r), third)


def log_prob_derivatives(
    h: float, answer: float, weight: float, link: str, scale: float = 1.0
) -> tuple[mpf, mpf, mpf, mpf]:
    """Return the log probability of an answer and its first three derivatives."""
    first = log_cdf_derivatives(h, link, scale)
    second = log_cdf_derivatives(-h, link, scale)
    with mpmath.workdps(DIGITS):
        a, w = mpf(answer), mpf(weight)
        signs = (1, -1, 1, -1)
        out = [
            w * (a * u + sign * (1 - a) * v)
            for u, v, sign in zip(first, second, signs, strict=True)
        ]
        return (out[0], out[1], out[2], out[3])


def expected_probability(mean: float, variance: float, link: str, scale: float = 1.0) -> float:
    """Return ``E mu(h)`` for ``h ~ N(mean, variance)``, by quadrature, to 14 digits.

    Standardised, ``h = mean + sd z``, over ``|z| <= 12`` (the rest weighs less than
    ``4e-33``), cut where the link changes fast, with 60 Gauss-Legendre nodes a part.
    """
    sd = math.sqrt(variance)
    kinks = [(k / scale - mean) / sd for k in (-40, -20, -10, -5, -2, 0, 2, 5, 10, 20, 40)]
    cuts = np.array(sorted({-12, -8, -4, -2, 0, 2, 4, 8, 12, *(z for z in kinks if abs(z) < 12)}))
    nodes, weights = np.polynomial.legendre.leggauss(60)
    middle, half = (cuts[1:] + cuts[:-1])[:, None] / 2, np.diff(cuts)[:, None] / 2
    z = middle + half * nodes
    cdf = {"logit": special.expit, "probit": special.ndtr}[link]
    density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    return float((half * weights * cdf(scale * (mean + sd * z)) * density).sum())


def _probability(x: mpf, link: str) -> mpf:
    if link == "logit":
        return 1 / (1 + mpmath.exp(-x))
    if link == "probit":
        return mpmath.erfc(-x / mpmath.sqrt(2)) / 2
    raise ValueError(f"Unknown link {link!r}.")


def _log(p: mpf, q: mpf) -> mpf:
    """Return ``log p`` given ``q = 1 - p``, without loss where ``p`` is near one."""
    return mpmath.log1p(-q) if q < mpf("0.5") else mpmath.log(p)
