package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// Run executes a command tree with the process's arguments and gives the exit code. The first SIGTERM or SIGINT ends
// the command's context, so that it stops in order; the second ends the process at once with 128 + signal.
func Run(root *cobra.Command) int {
	root.SilenceUsage, root.SilenceErrors = true, true
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return Fail(Usage, "%w", err) })
	ctx, stop := stopOnSignal(context.Background())
	defer stop()
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return int(Done)
	}
	code := CodeOf(err)
	fmt.Fprintf(root.ErrOrStderr(), "%s: %v\n", root.Name(), err)
	if code == Usage {
		fmt.Fprintf(root.ErrOrStderr(), "Run '%s --help' for usage.\n", cmd.CommandPath())
	}
	return int(code)
}

func stopOnSignal(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(parent)
	signals, finished := make(chan os.Signal, 2), make(chan struct{})
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	done := make(chan struct{})
	go func() {
		defer close(finished)
		for first := true; ; first = false {
			select {
			case <-done:
				return
			case s := <-signals:
				if !first {
					os.Exit(128 + int(s.(syscall.Signal)))
				}
				cancel()
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		<-finished
		cancel()
	}
}

// Group is a command that only holds others: without one of them it is a usage error.
func Group(use, short, long string, children ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			hint := ""
			if close := cmd.SuggestionsFor(args[0]); len(close) > 0 {
				hint = "; did you mean " + strings.Join(close, " or ") + "?"
			}
			return Fail(Usage, "unknown command %q%s", args[0], hint)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return Fail(Usage, "%s needs one of: %s", cmd.CommandPath(), strings.Join(names(cmd), ", "))
		},
	}
	cmd.SuggestionsMinimumDistance = 2
	cmd.AddCommand(children...)
	return cmd
}

func names(cmd *cobra.Command) []string {
	var out []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			out = append(out, c.Name())
		}
	}
	return out
}

// NoArgs refuses arguments as a usage error.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return Fail(Usage, "%s takes no arguments, got %q", cmd.CommandPath(), args[0])
	}
	return nil
}
