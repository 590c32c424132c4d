"""How a selection reaches the model without breaking its prompt cache."""
