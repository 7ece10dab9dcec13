// Package bench measures an outbox and its relay on the machine and the servers it is given, beside the machine's own
// floor, and prints the goals next to what came out. It asserts nothing. Everything it makes on the servers is its own
// and is removed at the end.
package bench
