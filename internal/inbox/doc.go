// Package inbox keeps which consumer has processed which message: it reserves a message in the transaction of its side
// effect, marks it processed, removes what has expired and counts. It decides nothing about retries and settles nothing.
package inbox
