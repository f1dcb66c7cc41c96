"""Comparisons of up to four jobs: which jobs (`selection`), what is known of each (`sides`), how they differ.

A comparison of share links shows only what the share pages show.
"""
