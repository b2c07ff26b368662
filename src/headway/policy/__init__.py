"""One file, one policy; each is pure and knows no other but by the registry."""
