"""Models behind wires: each module speaks one protocol, or wraps another provider."""
