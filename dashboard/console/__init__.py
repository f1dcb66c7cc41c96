"""The operators' console: pages of the admin that concern more than one model."""
