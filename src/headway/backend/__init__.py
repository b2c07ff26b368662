"""The doors: one file a platform, each of which observes and acts."""
