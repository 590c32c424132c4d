"""Access control: visibility, arguments, policies, approvals, and the middleware around calls."""
