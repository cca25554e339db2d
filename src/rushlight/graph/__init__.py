"""Graph IR: a captured program as single-assignment nodes, its verification, printing and passes."""
