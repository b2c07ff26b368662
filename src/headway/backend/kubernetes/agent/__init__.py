"""The node agent: reads the logs and cgroups of managed pods of its node, and reports them."""
