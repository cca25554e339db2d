"""How vmap runs operators: its interpreter (`vmap`), and the rules (`rules`), one module per family."""
