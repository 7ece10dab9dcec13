package main

import (
	"fmt"
	"io"
	"time"
)

// narrator tells what happens, each line with the seconds since the start.
type narrator struct {
	out   io.Writer
	start time.Time
}

func newNarrator(out io.Writer) *narrator { return &narrator{out: out, start: time.Now()} }

func (n *narrator) step(format string, args ...any) {
	fmt.Fprintf(n.out, "%5.1fs  %s\n", time.Since(n.start).Seconds(), fmt.Sprintf(format, args...))
}
