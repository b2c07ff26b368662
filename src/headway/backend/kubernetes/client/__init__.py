"""Talk to the API server: requests, informers, cache, leader election."""
