// Command shop serves POST /orders and the pages of the platform on 127.0.0.1:8085.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/backend-skeleton/relay/examples/publishing"
	"github.com/backend-skeleton/relay/messaging/platform"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "shop:", err)
		os.Exit(1)
	}
}

func run() error {
	file := os.Getenv("RELAY_CONFIG")
	if file == "" {
		file = "examples/publishing/relay.yaml"
	}
	ctx, stop := platform.Signals(context.Background())
	defer stop()
	p, err := platform.Open(ctx, platform.Options{File: file, Producer: "shop"})
	if err != nil {
		return err
	}
	shop, err := publishing.New(p)
	if err != nil {
		return errors.Join(err, p.Close(ctx))
	}
	mux := http.NewServeMux() // any router will do
	mux.HandleFunc("POST /orders", shop.Place)
	mux.Handle("/", p.Handler())
	server := &http.Server{Addr: "127.0.0.1:8085", Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	served := make(chan error, 1)
	go func() {
		served <- server.ListenAndServe()
		stop() // a service that does not listen ends
	}()
	err = p.Run(ctx)
	farewell, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err = errors.Join(err, server.Shutdown(farewell))
	if listen := <-served; !errors.Is(listen, http.ErrServerClosed) {
		err = errors.Join(err, fmt.Errorf("listen: %w", listen))
	}
	return err
}
