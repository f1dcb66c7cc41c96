"""What every API endpoint shares: errors, strict parsing, strict fields, request ids."""
