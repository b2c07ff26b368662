"""What a cluster needs so that Headway runs there: one source, written as Kustomize base and as
Helm chart.
"""
