"""Code generators: from loop IR to code for a machine."""
