package platform

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// Signals gives a context that ends at the first SIGTERM or SIGINT, for [Platform.Run]: the platform drains. A second
// signal ends the process at once with 128 + signal; what was in flight is then delivered or sent again. stop gives the
// signals back; it may be called again.
func Signals(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(parent)
	signals, over := make(chan os.Signal, 2), make(chan struct{})
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		for first := true; ; first = false {
			select {
			case <-over:
				return
			case s := <-signals:
				if number, ok := s.(syscall.Signal); ok && !first {
					os.Exit(128 + int(number))
				}
				cancel()
			}
		}
	}()
	return ctx, sync.OnceFunc(func() {
		signal.Stop(signals)
		close(over)
		<-finished
		cancel()
	})
}
