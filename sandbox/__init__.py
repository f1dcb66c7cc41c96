"""Run one untrusted program, confined by several independent layers."""
