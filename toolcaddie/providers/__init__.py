"""Providers of models: clients of model servers, and providers that wrap other providers."""
