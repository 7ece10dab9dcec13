// Package archtest holds the arrows of the house: which room may import which. The table is in rules.go, the check is a
// pure function over what `go list` prints, and the test of this package runs it over the whole module and names every
// offending import.
package archtest
