// Package acceptance holds tests only: the real programs against real servers, each in a schema, topic or virtual host
// of its own, with faults on the wire and signals to the processes.
package acceptance
