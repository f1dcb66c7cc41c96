"""Pages for everybody: home page, documentation, guides, example, share cards."""
