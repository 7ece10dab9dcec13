// Package deploy checks the operating files of the project: the compose file, the Dockerfile, the alert rules and the
// dashboard. Nothing here needs a docker daemon; what does says "not run here" where none answers. The same files go through
// the parsers of compose, BuildKit and Prometheus themselves in tools/containers.
package deploy
