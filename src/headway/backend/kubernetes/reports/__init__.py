"""Reports from pods over HTTPS: certificate, identity, server, and what becomes of them."""
