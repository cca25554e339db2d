"""Loop IR: index algebra, nodes, the handler protocol, verification and printing."""
