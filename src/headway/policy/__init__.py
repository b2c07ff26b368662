"""One file for each policy. Policies are pure, and are combined by the registry."""
