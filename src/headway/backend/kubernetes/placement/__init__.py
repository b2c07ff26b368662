"""Which pods fit on which nodes, and how gangs are bound."""
