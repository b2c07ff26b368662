"""One file, one policy; each is pure, and knows no other but by the registry or as what it is
built upon.
"""
