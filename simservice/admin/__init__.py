"""Parts that the admin pages of all apps share."""
