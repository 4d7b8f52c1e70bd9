package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/weir-go/weir/cmd/weir/playground"
)

func newPlayground() *cobra.Command {
	var address string
	c := withExitStatus(&cobra.Command{
		Use:   "playground",
		Short: "Serve a page on which every algorithm decides one stream of requests",
		Long: `playground serves a page that shows what limits do. Requests come by click, steadily, by
chance, in bursts or by a script, and every algorithm decides the same ones. Time can be
slowed down, stopped, and moved on by a microsecond. The address of the page keeps what is
set up. An access log that is dropped on the page is decided by the same limits. It is read
in the browser, and never leaves it.

The decisions are those of the engine itself, compiled to WebAssembly. The page loads
nothing from elsewhere. The command ends when it is interrupted.`,
		Example: `  weir playground
  weir playground --listen 127.0.0.1:9000`,
		Args:              noArguments("the page sets up everything itself, as in: weir playground"),
		ValidArgsFunction: noFiles,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			listener, err := net.Listen("tcp", address)
			if err != nil {
				return fmt.Errorf("--listen: %w: name another address, such as --listen "+
					"127.0.0.1:0 for any port that is free", err)
			}
			if _, err := fmt.Fprintf(c.OutOrStdout(), "The playground is at http://%s/\n",
				listener.Addr()); err != nil {
				listener.Close()
				return err
			}
			return servePlayground(ctx, listener)
		},
	}, `  0  it was interrupted
  2  it could not listen at the address`)
	c.Flags().StringVar(&address, "listen", "127.0.0.1:8080",
		"`address` to serve at; port 0: any that is free")
	return c
}

// servePlayground serves the page until ctx ends.
func servePlayground(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler: playground.Handler(), ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout: time.Minute,
	}
	stopped := context.AfterFunc(ctx, func() { server.Close() })
	defer stopped()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
