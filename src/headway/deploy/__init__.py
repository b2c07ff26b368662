"""The Kubernetes objects of an installation, as a Kustomize base and as a Helm chart."""
