"""Recording programs as graphs."""
