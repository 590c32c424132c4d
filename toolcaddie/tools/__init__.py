"""Tools in the box: sources whose tools act on the world, each configured in settings."""
