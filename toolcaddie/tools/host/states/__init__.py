"""State plugins of the host: each reads and changes one part of this machine (`ports.StatePlugin`)."""
