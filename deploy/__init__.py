"""Files for deployments: the image, Compose, Kubernetes, systemd, and the rules of Prometheus and Grafana.

They start the same processes with the same settings. Operators copy and adapt them; `README.md` says what is
tested. The two modules are tools for developers: `lock` writes the versions and hashes of the image's packages, and
`release` prepares a release. Neither is part of the service. Start with `compose.yaml`.
"""
