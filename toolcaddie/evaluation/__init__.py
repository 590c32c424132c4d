"""How well selection finds the right tools: labelled requests in, figures with their uncertainty out."""
