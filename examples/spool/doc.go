// Package spool is the adapter that docs/adapter-guide.md builds: a broker that is a directory. Each place is a directory
// in it and each message a file, which is written, flushed and only then given its name. It is small enough to be read in
// one sitting, and is no broker to run a business on: one process owns the directory.
package spool
