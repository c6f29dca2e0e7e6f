"""Answers of several people: what telling them apart is worth."""
