package envoy_test

import (
	"log"
	"net"
	"time"

	"github.com/weir-go/weir/gateway/descriptors"
	"github.com/weir-go/weir/gateway/envoy"
)

func Example() {
	config, err := descriptors.Load("limits.yaml")
	if err != nil {
		log.Fatal(err) // every mistake, one in a line
	}
	server, err := envoy.NewServer(envoy.ServerOptions{MaxConnectionAge: time.Hour})
	if err != nil {
		log.Fatal(err)
	}
	envoy.RegisterRateLimits(server, descriptors.MustNew(config, descriptors.Options{}), envoy.RateLimitOptions{})
	envoy.RegisterHealth(server)
	listener, err := net.Listen("tcp", "127.0.0.1:8081")
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(server.Serve(listener))
}

// A service has no limits yet.
func ExampleHealth_Resume() {
	server := envoy.MustNewServer(envoy.ServerOptions{})
	health := envoy.RegisterHealth(server)
	health.Shutdown() // probes are told to wait
	// ... once they have come:
	health.Resume()
}
