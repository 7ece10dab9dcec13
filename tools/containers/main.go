// Command containers starts the servers that the tests and the demo need as docker containers, and prints their addresses as
// VAR='value' lines, under the same names as the scripts for machines without docker:
//
//	set -a; eval "$(go run . start)"; set +a
//
// It is a module of its own, so that nobody but its users pays for testcontainers-go. Without a docker daemon every verb but
// list ends with 3 and says so.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

const usage = `usage: containers start [NAME...] | stop | list

  start   starts what is named (default: all) and prints VAR='value' lines; what runs already is used again
  stop    removes every container that start made
  list    prints the names: ` + "%s" + `
`

// errNoDocker says that no daemon answers: nothing was started.
var errNoDocker = errors.New("not run here: no docker daemon answers")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	switch {
	case err == nil:
	case errors.Is(err, errNoDocker):
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	case errors.Is(err, errUsage):
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "containers:", err)
		os.Exit(1)
	}
}

// errUsage carries the usage text.
var errUsage = errors.New("usage")

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return usageError("")
	}
	switch args[0] {
	case "list":
		_, err := fmt.Fprintln(out, strings.Join(names(), " "))
		return err
	case "start":
		chosen, err := choose(args[1:])
		if err != nil {
			return usageError(err.Error() + "\n")
		}
		return start(ctx, chosen, out)
	case "stop":
		return stopAll(ctx)
	}
	return usageError("")
}

func usageError(why string) error {
	return fmt.Errorf("%w: %s"+usage, errUsage, why, strings.Join(names(), " "))
}
